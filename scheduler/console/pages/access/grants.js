// Roles in apps: on show, and as a field.
import { html } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { Button } from "../../parts/basics.js";
import { useApps } from "../../parts/filters.js";
import { valueOf } from "../../parts/form.js";

export const ROLES = ["VIEWER", "OPERATOR", "EDITOR", "ADMIN"];

/** @param {{ grants: pb.Grant[] | undefined }} props */
export const Grants = ({ grants = [] }) =>
  grants.length === 0
    ? html`<span class="none">${t("grant.none")}</span>`
    : grants.map((grant, i) => html`<span class="tag label" key=${i}>
        <b>${grant.app === "*" ? t("grant.all") : grant.app}</b><span>
          ${t(`role.${(grant.role ?? "").replace("ROLE_", "")}`)}</span></span>`);

/**
 * @param {{
 *   grants: pb.Grant[], change: (grants: pb.Grant[]) => void, roles?: string[], fault?: string,
 * }} props
 */
export function GrantFields({ grants, change, roles = ROLES, fault }) {
  const apps = useApps();
  /** @param {number} i @param {Partial<pb.Grant>} more */
  const set = (i, more) => change(grants.with(i, { ...grants[i], ...more }));
  const add = () => change([...grants, { app: "*", role: `ROLE_${roles[0]}` }]);
  return html`<fieldset class="grants"><legend>${t("grant.title")}</legend>
    <datalist id="grant-apps"><option value="*" />
      ${apps.map((app) => html`<option key=${app} value=${app} />`)}</datalist>
    ${grants.map((grant, i) => html`<div class="row" key=${i}>
      <select value=${grant.role} aria-label=${t("grant.role")}
        onChange=${(/** @type {Event} */ e) => set(i, { role: valueOf(e) })}>
        ${roles.map((role) => html`<option key=${role} value=${`ROLE_${role}`}>
          ${t(`role.${role}`)}</option>`)}</select>
      <input value=${grant.app} list="grant-apps" aria-label=${t("grant.app")} spellcheck=${false}
        onInput=${(/** @type {Event} */ e) => set(i, { app: valueOf(e).trim() })} />
      <${Button} kind="quiet" icon="trash" label=${t("grant.remove")}
        onClick=${() => change(grants.toSpliced(i, 1))} /></div>`)}
    <${Button} icon="plus" onClick=${add}>${t("grant.add")}<//>
    <p class="minor">${t("grant.hint")}</p>
    ${fault && html`<p class="field-fault" role="alert">${fault}</p>`}</fieldset>`;
}
