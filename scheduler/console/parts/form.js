// Fields of forms. What is typed stays as it was typed; what it means goes to the form.
import { cloneElement, cls, html, useEffect, useId, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { readLength, wallClock, wallText, writeLength } from "../lib/time.js";

/** @param {Event} event */
export const valueOf = (event) => /** @type {HTMLInputElement} */ (event.target).value;

/**
 * A field with its name, what it is for, and what is wrong with it.
 * @param {{
 *   label: any, hint?: any, fault?: string, must?: boolean, children?: any, tick?: boolean,
 *   at?: string,
 * }} props `at`: its path, where a form asks which of its fields were left
 */
export function Labelled({ label, hint, fault, must, children, tick, at }) {
  const id = useId();
  const told = cls(hint && `${id}-hint`, fault && `${id}-fault`);
  const field = cloneElement(children, { id, "aria-describedby": told || undefined });
  return html`<div class=${cls("field", tick && "tick", fault && "wrong")} data-at=${at}>
    ${tick && field}
    <label for=${id}>${label}${must && html`<i class="must">${t("form.must")}</i>`}</label>
    ${!tick && field}
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}
    ${fault && html`<small id=${`${id}-fault`} class="field-fault" role="alert">
      ${fault}</small>`}</div>`;
}

/**
 * @param {{
 *   label: any, value: string, change: (text: string) => void, hint?: any, fault?: string,
 *   must?: boolean, list?: string, mono?: boolean, placeholder?: string, rows?: number,
 *   type?: string, off?: boolean, at?: string, leave?: () => void,
 * }} props `leave` hears that it was left with a change
 */
export function TextField(props) {
  const { label, value, change, hint, fault, must, list, mono, placeholder, rows, type, off, at,
    leave } = props;
  const onInput = (/** @type {Event} */ event) => change(valueOf(event));
  const shared = { value, onInput, onChange: leave, placeholder, "aria-invalid": Boolean(fault),
    class: mono ? "mono" : "", disabled: off };
  return html`<${Labelled} label=${label} hint=${hint} fault=${fault} must=${must} at=${at}>
    ${rows
      ? html`<textarea ...${shared} rows=${rows}></textarea>`
      : html`<input ...${shared} type=${type ?? "text"} list=${list} spellcheck=${false}
        autocomplete="off" />`}<//>`;
}

/**
 * @param {{
 *   label: any, value: string, change: (value: string) => void, options: [string, string][],
 *   hint?: any, fault?: string, none?: string, at?: string,
 * }} props
 */
export const SelectField = ({ label, value, change, options, hint, fault, none, at }) =>
  html`<${Labelled} label=${label} hint=${hint} fault=${fault} at=${at}>
    <select value=${value} onChange=${(/** @type {Event} */ e) => change(valueOf(e))}
      aria-invalid=${Boolean(fault)}>
      ${none !== undefined && html`<option value="">${none}</option>`}
      ${options.map(([key, text]) =>
        html`<option key=${key} value=${key}>${text}</option>`)}</select><//>`;

/**
 * @param {{
 *   label: any, value: boolean, change: (on: boolean) => void, hint?: any, fault?: string,
 *   at?: string,
 * }} props
 */
export const TickField = ({ label, value, change, hint, fault, at }) =>
  html`<${Labelled} label=${label} hint=${hint} fault=${fault} at=${at} tick>
    <input type="checkbox" checked=${value} onChange=${(/** @type {Event} */ e) =>
      change(/** @type {HTMLInputElement} */ (e.target).checked)} /><//>`;

/**
 * A field whose text means something else: kept as it was typed, taken when it can be read.
 * @template T
 * @param {{
 *   label: any, value: T | undefined, change: (value: T | undefined) => void, hint?: any,
 *   fault?: string, placeholder?: string, read: (text: string) => T | undefined,
 *   write: (value: T | undefined) => string, wrong: string, tell?: (wrong: boolean) => void,
 *   type?: string, must?: boolean, list?: string, at?: string,
 * }} props
 */
export function ReadField(props) {
  const { label, value, change, hint, fault, placeholder, read, write, wrong, tell, type, must,
    list, at } = props;
  const [text, setText] = useState(write(value));
  const [left, setLeft] = useState(false);
  const unread = text.trim() !== "" && read(text) === undefined;
  const shown = write(value);
  useEffect(() => {
    const mine = text.trim() === "" ? undefined : read(text);
    if (!unread && write(mine) !== shown) setText(shown);
  }, [shown]);
  useEffect(() => {
    tell?.(unread);
    return () => tell?.(false);
  }, [unread]);
  /** @param {string} next */
  const take = (next) => {
    setText(next);
    const meant = next.trim() === "" ? undefined : read(next);
    if (next.trim() === "" || meant !== undefined) change(meant);
  };
  return html`<${TextField} label=${label} value=${text} change=${take} hint=${hint} must=${must}
    fault=${unread ? left && wrong : fault} placeholder=${placeholder} type=${type} list=${list}
    at=${at} leave=${() => setLeft(true)} />`;
}

/** A length of time, such as 90s or 1h30m. @param {any} props */
export const LengthField = (props) =>
  html`<${ReadField} ...${props} read=${readLength} write=${writeLength}
    wrong=${t("form.badLength")}
    placeholder=${props.placeholder ?? "90s, 5m, 1h30m"} />`;

/** @param {string} text */
const readNumber = (text) => (/^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : undefined);
/** Without the noise of a number that was once a float. @param {number} value */
export const plainNumber = (value) => String(Number(value.toPrecision(7)));
/** @param {number | undefined} value */
const writeNumber = (value) => (value === undefined ? "" : plainNumber(value));

/** @param {any} props */
export const NumberField = (props) =>
  html`<${ReadField} ...${props} read=${readNumber} write=${writeNumber}
    wrong=${t("form.badNumber")} />`;

/** @param {string} text */
const readWords = (text) => text.split(/[\s,]+/).filter(Boolean);
/** @param {string[] | undefined} words */
const writeWords = (words) => (words ?? []).join(", ");

/** Words with commas between. @param {any} props */
export const WordsField = (props) =>
  html`<${ReadField} ...${props} read=${readWords} write=${writeWords} wrong="" />`;

/** @param {string} text */
function readLabels(text) {
  /** @type {Record<string, string>} */
  const labels = {};
  for (const part of text.split(/[\n,]+/).map((one) => one.trim()).filter(Boolean)) {
    const [key, ...value] = part.split("=");
    if (!key.trim()) return undefined;
    labels[key.trim()] = value.join("=").trim();
  }
  return labels;
}
/** @param {Record<string, string> | undefined} labels */
const writeLabels = (labels) =>
  Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`).join(", ");

/** Labels as key=value with commas between. @param {any} props */
export const LabelsField = (props) =>
  html`<${ReadField} ...${props} read=${readLabels} write=${writeLabels}
    wrong=${t("form.badLabels")}
    placeholder=${props.placeholder ?? "team=billing, zone=b"} />`;

/**
 * An instant by the clock of a zone.
 * @param {{
 *   label: any, value: string | undefined, change: (value: string | undefined) => void,
 *   zone: string, fault?: string, hint?: any, at?: string,
 * }} props
 */
export function InstantField({ label, value, change, zone, fault, hint, at: path }) {
  const at = value ? Date.parse(value) : NaN;
  /** @param {string} text */
  const take = (text) => {
    const ms = wallClock(text, zone);
    change(Number.isNaN(ms) ? undefined : new Date(ms).toISOString());
  };
  return html`<${Labelled} label=${label} hint=${hint ?? zone} fault=${fault} at=${path}>
    <input type="datetime-local" step="1" value=${Number.isNaN(at) ? "" : wallText(at, zone)}
      aria-invalid=${Boolean(fault)} onChange=${(/** @type {Event} */ e) => take(valueOf(e))} />
        <//>`;
}
