// The view library in one place: tagged templates over preact, and its hooks.
import { cloneElement, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
export { cloneElement, render };
export {
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/hooks.js";

/** Joins the names that are there. @param {...(string | false | null | undefined)} names */
export const cls = (...names) => names.filter(Boolean).join(" ");
