// Alarms that were raised, and the rules that raise them.
import { html, useMemo } from "../lib/dom.js";
import { useEvery } from "../lib/every.js";
import { t } from "../lib/i18n.js";
import { useList } from "../lib/list.js";
import { allOf, appOf, parentOf, quoted, shortOf } from "../lib/names.js";
import { href, useRoute } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { can } from "../lib/session.js";
import { Button, ButtonLink, Empty, PageHead, Tabs } from "../parts/basics.js";
import { sayFault } from "../parts/dialog.js";
import { ClearFilters, Pick, PickApp } from "../parts/filters.js";
import { Rules } from "./alarms/rules.js";
import { Person, Told } from "../parts/person.js";
import { RunLink } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { When, ZoneNote } from "../parts/when.js";

const LIVE_MS = 5000;
const FILTERS = ["app", "seen", "condition"];
const CONDITIONS = ["RUN_FAILED", "RUN_LOST", "RUN_SUCCEEDED"];

/** @param {{ tab: string }} props */
export function Alarms({ tab }) {
  return html`<${PageHead} title=${t("page.alarms")} />
    <${Tabs} label=${t("page.alarms")} of=${[
      { href: href("/alarms"), text: t("alarms.raised"), on: !tab },
      { href: href("/alarms/rules"), text: t("alarms.rules"), on: tab === "rules" },
    ]} />
    ${tab === "rules" ? html`<${Rules} />` : html`<${Raised} />`}`;
}

function Raised() {
  const { query } = useRoute();
  // Those that nobody has seen yet, unless others are asked for.
  const seen = query.get("seen") ?? "no";
  const condition = query.get("condition");
  const filter = allOf(
    seen !== "all" && `acknowledged = ${quoted(seen === "yes" ? "true" : "false")}`,
    condition && `condition = ${quoted(condition)}`,
  );
  const body = { parent: parentOf(query.get("app")), filter };
  const list = useList({ method: "AlarmService/ListAlarms", body, field: "alarms" });
  useEvery(LIVE_MS, () => list.refresh());
  const columns = useMemo(() => columnsOf(list.patch), [list]);
  return html`<div class="filters">
      <${PickApp} />
      <${Pick} name="seen" label=${t("alarms.seen")} any=${t("alarms.open")}
        options=${[["yes", t("alarms.acknowledged")], ["all", t("alarms.all")]]} />
      <${Pick} name="condition" label=${t("alarm.condition")}
        options=${CONDITIONS.map((one) => [one, t(`condition.${one}`)])} />
      <${ClearFilters} names=${FILTERS} /><${ZoneNote} /></div>
    <${Table} label=${t("alarms.raised")} list=${list} columns=${columns}
      empty=${html`<${Empty} title=${t(seen === "no" ? "alarms.noneOpen" : "alarms.none")}
        hint=${t("alarms.noneHint")}>
        <${ButtonLink} href=${href("/alarms/rules")}>${t("alarms.rules")}<//><//>`} />`;
}

/**
 * @param {(alarm: pb.Alarm) => unknown} patch
 * @returns {import("../parts/table.js").Column<pb.Alarm>[]}
 */
function columnsOf(patch) {
  return [
    { id: "time", label: t("alarm.time"), cell: (one) =>
      html`<${When} at=${one.fireTime} bare rel />` },
    { id: "what", label: t("alarm.message"), class: "first", cell: (one) =>
      html`<span class="name"><${Told} text=${one.subject} /></span>
        <span class="under"><${Told} text=${one.message} /></span>` },
    { id: "run", label: t("word.run"), cell: (one) => html`<${RunOf} message=${one.message} />` },
    { id: "rule", label: t("alarm.rule"), cell: (one) => shortOf(one.rule) },
    { id: "sent", label: t("alarm.deliveries"), cell: (one) => html`${one.deliveries ?? 0}
      ${one.lastDeliveryError && html`<span class="under bad">${one.lastDeliveryError}</span>`}` },
    { id: "seen", label: t("alarms.seen"), cell: (one) =>
      html`<${Seen} alarm=${one} patch=${patch} />` },
  ];
}

/** The run that an alarm is about: its message names it. @param {{ message?: string }} props */
function RunOf({ message = "" }) {
  const [name] = /apps\/[^/\s]+\/runs\/\w+/.exec(message) ?? [];
  return name ? html`<${RunLink} name=${name} />` : html`<span class="none">–</span>`;
}

/** @param {{ alarm: pb.Alarm, patch: (alarm: pb.Alarm) => unknown }} props */
function Seen({ alarm, patch }) {
  const { name = "" } = alarm;
  if (alarm.acknowledgeTime) {
    return html`<span class="minor">
      <${Person} name=${alarm.acknowledgedBy} />${" · "}
      <${When} at=${alarm.acknowledgeTime} bare /></span>`;
  }
  if (!can("OPERATOR", appOf(name))) return html`<span class="none">–</span>`;
  const act = () => call("AlarmService/AcknowledgeAlarm", { name }).then(
    (/** @type {any} */ next) => patch(next), sayFault);
  return html`<${Button} icon="ok" onClick=${act}>${t("alarm.acknowledge")}<//>`;
}
