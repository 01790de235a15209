// The view library in one place: tagged templates over preact, and its hooks.
import { Component, Fragment, createContext, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
export { Component, Fragment, createContext, render };
export {
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/hooks.js";

/** Joins the names that are there. @param {...(string | false | null | undefined)} names */
export const cls = (...names) => names.filter(Boolean).join(" ");
