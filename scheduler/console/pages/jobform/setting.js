// A field of a form for one setting of a job.
import { html } from "../../lib/dom.js";
import { has, t } from "../../lib/i18n.js";
import { LabelsField, LengthField, NumberField, SelectField, TextField, TickField,
  WordsField } from "../../parts/form.js";

/**
 * @param {{
 *   field: import("./fields.js").Setting, value: any, change: (value: any) => void,
 *   fault: string | undefined, tell: (wrong: boolean) => void,
 * }} props
 */
export function SettingField({ field, value, change, fault, tell }) {
  const label = t(`form.${field.label}`);
  const hint = has(`form.${field.label}.hint`);
  const shared = { label, hint, fault, change, tell };
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
      return html`<${SelectField} ...${shared} none=${t("form.default")} value=${value ?? ""}
        change=${(/** @type {string} */ one) => change(one || undefined)}
        options=${(field.options ?? []).map((one) => [prefix + one, t(`choice.${prefix}${one}`)])}
          />`;
    }
    default:
      return html`<${TextField} ...${shared} value=${value ?? ""}
        change=${(/** @type {string} */ text) => change(text || undefined)} />`;
  }
}
