// Fire times that nobody served: how many, from when to when, and the way to make up for them.
import { html } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { appOf } from "../../lib/names.js";
import { hasGap, missedTimes } from "../../lib/runs.js";
import { can } from "../../lib/session.js";
import { ButtonLink } from "../../parts/basics.js";
import { backfillHref } from "../job/backfill.js";
import { When } from "../../parts/when.js";

/** @param {{ run: pb.Run, zone: string }} props */
export function Missed({ run, zone }) {
  const n = missedTimes(run);
  return html`<section class="failure tone-late" aria-label=${t("state.MISSED")}>
    <p><b>${t("run.missed", { n })}</b> <${When} at=${run.fireTime} zone=${zone} />
      ${hasGap(run) && html` ${t("run.to")} <${When} at=${run.missedUntilTime} zone=${zone} />`}</p>
    <p>${t("run.missedWhy")}</p>
    ${can("OPERATOR", appOf(run.name ?? "")) && html`<div class="row">
      <${ButtonLink} icon="back" href=${backfillHref(run)}>${t("run.makeUp")}<//></div>`}
    </section>`;
}
