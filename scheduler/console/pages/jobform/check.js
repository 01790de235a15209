// What the scheduler says to a job as it is written, and which of it is shown: a field is not
// accused before somebody has left it with a change, or wants to save.
import { useEffect, useRef, useState } from "../../lib/dom.js";
import { call } from "../../lib/rpc.js";
import { pathOf } from "./model.js";

const TYPING_MS = 400;

/**
 * Asks shortly after each change.
 * @param {string} method
 * @param {object} body
 */
export function useCheck(method, body) {
  const [state, setState] = useState(
    { faults: /** @type {Map<string, string>} */ (new Map()), of: "" });
  const [left, setLeft] = useState(/** @type {Set<string>} */ (new Set()));
  const [tried, setTried] = useState(false);
  const asked = JSON.stringify(body);
  const latest = useRef(asked);
  latest.current = asked;
  /** @param {unknown} fault what a call with the latest body came to */
  const take = (fault) => setState({ faults: faultsOf(fault), of: latest.current });
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        await call(method, { ...JSON.parse(asked), validateOnly: true }, stop.signal);
        setState({ faults: new Map(), of: asked });
      } catch (fault) {
        if (!stop.signal.aborted) take(fault);
      }
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [asked]);
  return {
    faults: state.faults,
    checked: state.of === asked,
    tried,
    take,
    /** From now on all faults are shown. */
    want: () => setTried(true),
    /** Takes up which field was left with a change. @param {Event} event */
    leave: (event) => {
      const at = event.target instanceof Element && event.target.closest("[data-at]");
      if (at instanceof HTMLElement) setLeft((before) => new Set([...before, at.dataset.at ?? ""]));
    },
    /** Fields whose path begins so are others from now on. @param {string} path */
    forget: (path) => setLeft((before) =>
      new Set([...before].filter((one) => !one.startsWith(path)))),
    /** What a field is told: its path, and its fault. @param {string} at */
    place: (at) => ({ at, fault: tried || left.has(at) ? state.faults.get(at) : undefined }),
  };
}

/**
 * @param {unknown} error
 * @returns {Map<string, string>} what is wrong, by the path of the field; "" for the whole
 */
export function faultsOf(error) {
  if (!error) return new Map();
  const { fields = [], message, code } = /** @type {import("../../lib/rpc.js").RpcError} */ (error);
  if (fields.length === 0) return new Map([[code === "already_exists" ? "jobId" : "", message]]);
  return new Map(fields.map(({ field, description }) => [pathOf(field), description]));
}

/** Opens what hides a fault, and goes to the first. */
export function showFaults() {
  requestAnimationFrame(() => {
    const wrong = [...document.querySelectorAll(".field.wrong")];
    for (const one of wrong) one.closest("details")?.setAttribute("open", "");
    const field = wrong[0]?.querySelector("input, select, textarea");
    if (field instanceof HTMLElement) field.focus({ preventScroll: true });
    (wrong[0] ?? document.querySelector(".fault"))?.scrollIntoView({ block: "center" });
  });
}
