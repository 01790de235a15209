// The keyboard: one listener, and what the page on show does with a key.
import { useEffect, useRef } from "./dom.js";

/** @typedef {Record<string, (event: KeyboardEvent) => void>} Keys */

/** The last ones added answer first. @type {{ current: Keys }[]} */
const layers = [];

/** Whether the key belongs to what has the focus. @param {KeyboardEvent} event */
function isTyped(event) {
  const at = event.target;
  if (!(at instanceof HTMLElement)) return false;
  if (["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName)) {
    const box = at instanceof HTMLInputElement && at.type === "checkbox";
    return !box;
  }
  return at.isContentEditable || at.closest("dialog") !== null;
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target instanceof HTMLElement && isTyped(event)) {
    if (event.target.matches("[data-search]")) event.target.blur();
    return;
  }
  if (isTyped(event)) return;
  for (let i = layers.length - 1; i >= 0; i -= 1) {
    const act = layers[i].current[event.key];
    if (!act) continue;
    // A link or button under the focus answers to Enter itself.
    const own = event.target instanceof Element && event.target.closest("a,button,summary");
    if (event.key === "Enter" && own) return;
    event.preventDefault();
    act(event);
    return;
  }
});

/** What keys do while the component is there. @param {Keys} keys */
export function useKeys(keys) {
  const layer = useLayer(keys);
  useEffect(() => {
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, []);
}

/** @param {Keys} keys */
function useLayer(keys) {
  const layer = useRef(keys);
  layer.current = keys;
  return /** @type {{ current: Keys }} */ (layer);
}

/** Puts the focus into the search field of the page. */
export function focusSearch() {
  const field = document.querySelector("[data-search]");
  if (field instanceof HTMLInputElement) {
    field.focus();
    field.select();
  }
}
