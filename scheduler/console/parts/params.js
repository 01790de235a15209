// Params of a run: a form where the handler says what it takes, or JSON.
import { html, useEffect, useState } from "../lib/dom.js";
import { useHandlers } from "../lib/handlers.js";
import { t } from "../lib/i18n.js";
import { jsonFault } from "../lib/payload.js";
import { fieldsOf, missing } from "../lib/schema.js";
import { Labelled, valueOf } from "./form.js";

/**
 * The text is what counts; the form reads it and writes it.
 * @param {{
 *   app: string, handler: string, text: string, change: (text: string) => void,
 *   tell?: (fault: string) => void,
 * }} props `tell` hears why the text can't be sent, or ""
 */
export function Params({ app, handler, text, change, tell }) {
  const offers = useHandlers(app);
  const offer = offers?.find((one) => one.handler?.name === handler);
  const fields = fieldsOf(offer?.handler?.paramsSchema);
  const [raw, setRaw] = useState(false);
  const fault = text.trim() === "" ? "" : jsonFault(text);
  useEffect(() => tell?.(fault), [fault]);
  const value = parsed(text);
  const asForm = fields !== null && !raw && value !== undefined;
  const lacking = fields && value ? missing(fields, value) : [];
  return html`<fieldset class="params">
    <legend>${t("run.params")}
      ${fields && html`<span class="row"><button type="button" class="link" aria-pressed=${!asForm}
        onClick=${() => setRaw(!raw)} disabled=${value === undefined}>
          ${t(asForm ? "params.asJson" : "params.asForm")}</button></span>`}
    </legend>
    ${offer?.handler?.description && html`<p class="minor">${offer.handler.description}</p>`}
    ${asForm
      ? html`<div class="stack">
        ${fields.length === 0 && html`<p class="none">${t("params.none")}</p>`}
          ${fields.map((field) => html`<${One} key=${field.name} field=${field}
            value=${value[field.name]}
            change=${(/** @type {any} */ next) => change(written(value, field.name, next))}
              />`)}</div>`
      : html`<textarea class="mono" rows="8" spellcheck=${false} value=${text}
        aria-label=${t("params.json")}
          aria-invalid=${fault !== ""} onInput=${(/** @type {Event} */ e) =>
            change(/** @type {HTMLTextAreaElement} */ (e.target).value)}></textarea>`}
    ${fault && html`<p class="field-fault" role="alert">${t("params.notJson", { fault })}</p>`}
    ${lacking.length > 0 && html`<p class="field-note">
      ${t("params.lacking", { names: lacking.join(t("word.comma")) })}</p>`}
  </fieldset>`;
}

/** The object that a text is; undefined for anything else. @param {string} text */
function parsed(text) {
  if (text.trim() === "") return {};
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** @param {any} value @param {string} name @param {any} next */
function written(value, name, next) {
  const { [name]: _, ...others } = value;
  const changed = next === undefined ? others : { ...value, [name]: next };
  return JSON.stringify(changed, null, 2);
}

/**
 * @param {{
 *   field: import("../lib/schema.js").Field, value: any, change: (next: any) => void,
 * }} props
 */
function One({ field, value, change }) {
  const { name, kind, hint, required, choices, placeholder } = field;
  const typed = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target);
  const label = html`<b class="mono">${name}</b>`;
  if (kind === "boolean") {
    return html`<${Labelled} label=${label} hint=${hint} must=${required} tick>
      <input type="checkbox" checked=${value === true}
        onChange=${(/** @type {Event} */ e) => change(typed(e).checked)} /><//>`;
  }
  if (kind === "choice") {
    return html`<${Labelled} label=${label} hint=${hint} must=${required}>
      <select value=${value ?? ""}
        onChange=${(/** @type {Event} */ e) => change(typed(e).value || undefined)}>
        <option value="">–</option>
        ${choices.map((choice) =>
          html`<option key=${choice} value=${choice}>${choice}</option>`)}</select><//>`;
  }
  if (kind === "text" && (value === undefined || typeof value === "string")) {
    return html`<${Labelled} label=${label} hint=${hint} must=${required}>
      <input value=${value ?? ""} placeholder=${placeholder} spellcheck=${false}
        onInput=${(/** @type {Event} */ e) =>
          change(typed(e).value || (required ? "" : undefined))} /><//>`;
  }
  return html`<${Raw} label=${label} hint=${hint} must=${required} value=${value} change=${change}
    placeholder=${placeholder} long=${kind === "json"} />`;
}

/**
 * A value as JSON of its own; what can't be read stays as it was typed, and is not taken.
 * @param {{
 *   label: any, hint: string, must: boolean, value: any, change: (next: any) => void,
 *   placeholder: string, long: boolean,
 * }} props
 */
function Raw({ label, hint, must, value, change, placeholder, long }) {
  const [text, setText] = useState(asText(value));
  const fault = text.trim() === "" ? "" : jsonFault(text);
  useEffect(() => {
    // Changed from outside, not by what is typed here.
    const meant = text.trim() === "" || fault ? undefined : JSON.parse(text);
    if (!fault && asText(meant) !== asText(value)) setText(asText(value));
  }, [asText(value)]);
  /** @param {Event} event */
  const onInput = (event) => {
    const next = valueOf(event);
    setText(next);
    if (next.trim() === "") change(undefined);
    else if (!jsonFault(next)) change(JSON.parse(next));
  };
  return html`<${Labelled} label=${label} hint=${hint} must=${must}
    fault=${fault && t("params.notJson", { fault })}>${long
      ? html`<textarea class="mono" rows="2" value=${text} onInput=${onInput}
        placeholder=${placeholder}
          spellcheck=${false} aria-invalid=${fault !== ""}></textarea>`
      : html`<input class="mono" inputmode="decimal" value=${text} onInput=${onInput}
          placeholder=${placeholder} aria-invalid=${fault !== ""} />`}<//>`;
}

/** @param {any} value */
const asText = (value) => (value === undefined ? "" : JSON.stringify(value));
