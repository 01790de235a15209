// A field of a form for one setting of a job.
import { html } from "../../lib/dom.js";
import { has, t } from "../../lib/i18n.js";
import { length, seconds } from "../../lib/time.js";
import { LabelsField, LengthField, NumberField, SelectField, TextField, TickField,
  WordsField, plainNumber } from "../../parts/form.js";

/**
 * What holds where the setting is left out, in words; undefined where nothing does.
 * @param {import("./fields.js").Setting} field
 * @returns {string | undefined}
 */
export function usualWords({ usual, kind, label, enum: prefix }) {
  if (usual === undefined) return has(`form.${label}.usual`);
  if (kind === "choice") return t(`choice.${prefix}${usual}`);
  return kind === "length" ? length(seconds(String(usual)) * 1000) : plainNumber(Number(usual));
}

/**
 * @param {{
 *   field: import("./fields.js").Setting, value: any, change: (value: any) => void,
 *   at: string, fault?: string, tell: (wrong: boolean) => void,
 * }} props
 */
export function SettingField({ field, value, change, at, fault, tell }) {
  const label = t(`form.${field.label}`);
  const hint = has(`form.${field.label}.hint`);
  const usual = usualWords(field);
  const placeholder = usual && t("form.default", { text: usual });
  const shared = { label, hint, at, fault, change, tell, placeholder };
  switch (field.kind) {
    case "length":
      return html`<${LengthField} ...${shared} value=${value} />`;
    case "number":
      return html`<${NumberField} ...${shared} value=${value} />`;
    case "words":
      return html`<${WordsField} ...${shared} value=${value} />`;
    case "labels":
      return html`<${LabelsField} ...${shared} value=${value} />`;
    case "tick":
      return html`<${TickField} ...${shared} value=${value === true}
        change=${(/** @type {boolean} */ on) => change(on || undefined)} />`;
    case "choice": {
      const prefix = field.enum ?? "";
      return html`<${SelectField} ...${shared} none=${placeholder} value=${value ?? ""}
        change=${(/** @type {string} */ one) => change(one || undefined)}
        options=${(field.options ?? []).map((one) => [prefix + one, t(`choice.${prefix}${one}`)])}
          />`;
    }
    default:
      return html`<${TextField} ...${shared} value=${value ?? ""}
        change=${(/** @type {string} */ text) => change(text || undefined)} />`;
  }
}
