// Questions and words of the console to its viewer.
import { html, useEffect, useRef, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { store, useStore } from "../lib/store.js";
import { Button, Fault } from "./basics.js";
import { Icon } from "./icon.js";

/**
 * A box over the page. Escape and its cross close it.
 * @param {{ title: string, close: () => void, children?: any, wide?: boolean }} props
 */
export function Dialog({ title, close, children, wide }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const at = document.activeElement;
    box.current?.showModal();
    return () => {
      if (at instanceof HTMLElement) at.focus({ preventScroll: true });
    };
  }, []);
  /** @param {Event} event */
  const onCancel = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog class=${wide ? "wide" : ""} ref=${box} onCancel=${onCancel}
    aria-label=${title}>
    <header><h2>${title}</h2><${Button} kind="quiet" icon="close" label=${t("do.close")}
      onClick=${close} /></header>
    <div class="dialog-body">${children}</div></dialog>`;
}

/**
 * A form in a box: it closes when `act` has done its work, else says why not.
 * @param {{
 *   title: string, lead?: any, verb: string, danger?: boolean, wide?: boolean,
 *   close: () => void, act: () => Promise<unknown>, children?: any, off?: boolean,
 * }} props
 */
export function Ask({ title, lead, verb, danger, wide, close, act, children, off }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await act();
      close();
    } catch (fault) {
      setError(fault);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} close=${close} wide=${wide}>
    <form onSubmit=${submit}>
      ${lead && html`<p class="lead">${lead}</p>`}${children}
      <${Fault} error=${error} />
      <footer class="row end">
        <${Button} onClick=${close}>${t("do.cancel")}<//>
        <${Button} type="submit" kind=${danger ? "danger" : "main"} busy=${busy} disabled=${off}>
          ${verb}<//>
      </footer>
    </form><//>`;
}

/** @typedef {{ id: number, text: string, href?: string, bad?: boolean }} Note */

/** @type {import("../lib/store.js").Store<Note[]>} */
const notes = store(/** @type {Note[]} */ ([]));
let last = 0;
const SHOWN_MS = 6000;

/**
 * Tells what was done, for a while, in a corner.
 * @param {string} text
 * @param {{ href?: string, bad?: boolean }} [more]
 */
export function say(text, more = {}) {
  last += 1;
  const id = last;
  notes.set([...notes.get().slice(-3), { id, text, ...more }]);
  fade(id, more.bad ? SHOWN_MS * 3 : SHOWN_MS);
}

/**
 * One that somebody points at, or whose link has the focus, stays.
 * @param {number} id
 * @param {number} ms
 */
function fade(id, ms) {
  const held = () => document.getElementById(`note-${id}`)?.matches(":hover, :focus-within");
  setTimeout(() => (held() ? fade(id, ms) : drop(id)), ms);
}

/** @param {number} id */
const drop = (id) => notes.set(notes.get().filter((note) => note.id !== id));

/** Tells of a fault. @param {unknown} error */
export const sayFault = (error) =>
  say(error instanceof Error ? error.message : String(error), { bad: true });

export function Notes() {
  return html`<div class="notes" role="status" aria-live="polite">${useStore(notes).map((note) =>
    html`<div key=${note.id} id=${`note-${note.id}`} class=${note.bad ? "note bad" : "note"}>
      <span>${note.text}</span>
      ${note.href && html`<a href=${note.href}>${t("do.show")}</a>`}
      <button type="button" onClick=${() => drop(note.id)} aria-label=${t("do.close")}>
        <${Icon} name="close" size=${12} /></button></div>`)}</div>`;
}
