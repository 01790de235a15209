// Acts that come again while somebody looks.
import { useEffect, useRef } from "./dom.js";

/** @param {number} ms @param {() => unknown} act */
export function useEvery(ms, act) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const timer = setInterval(() => document.hidden || latest.current(), ms);
    return () => clearInterval(timer);
  }, [ms]);
}
