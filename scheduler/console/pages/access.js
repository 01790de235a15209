// Who may do what, and who did what.
import { html } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { href } from "../lib/router.js";
import { can } from "../lib/session.js";
import { Empty, PageHead, Tabs } from "../parts/basics.js";
import { Audit } from "./access/audit.js";
import { Tokens } from "./access/tokens.js";
import { Users } from "./access/users.js";

/** @param {{ tab: string }} props */
export function Access({ tab }) {
  if (!can("ADMIN")) return html`<${Empty} title=${t("access.notYours")}
    hint=${t("access.notYoursHint")} />`;
  const everywhere = can("ADMIN", "*");
  const at = tab || (everywhere ? "users" : "tokens");
  const tabs = ["users", "tokens", "audit"].filter((one) => one !== "users" || everywhere);
  return html`<${PageHead} title=${t("page.access")} />
    <${Tabs} label=${t("page.access")} of=${tabs.map((one) =>
      ({ href: href(`/access/${one}`), text: t(`access.${one}`), on: one === at }))} />
    ${at === "users" && html`<${Users} />`}
    ${at === "tokens" && html`<${Tokens} />`}
    ${at === "audit" && html`<${Audit} />`}`;
}
