// A value that many parts look at.
import { useLayoutEffect, useState } from "./dom.js";

/**
 * @template T
 * @typedef {{ get: () => T, set: (next: T) => void, listen: (f: () => void) => () => void }} Store
 */

/**
 * @template T
 * @param {T} initial
 * @returns {Store<T>}
 */
export function store(initial) {
  let value = initial;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/**
 * The store's value; the component is drawn anew when it changes.
 * @template T
 * @param {Store<T>} of
 * @returns {T}
 */
export function useStore(of) {
  const [, redraw] = useState(0);
  const drawn = of.get();
  useLayoutEffect(() => {
    const again = () => redraw((n) => n + 1);
    // Nobody listened between the drawing and now.
    if (!Object.is(of.get(), drawn)) again();
    return of.listen(again);
  }, [of]);
  return drawn;
}
