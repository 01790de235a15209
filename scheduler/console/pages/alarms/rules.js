// Rules of alarms: what they watch for, and whom they tell.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { useList } from "../../lib/list.js";
import { appOf, idOf, parentOf } from "../../lib/names.js";
import { useRoute } from "../../lib/router.js";
import { call } from "../../lib/rpc.js";
import { can } from "../../lib/session.js";
import { Button, Empty, Panel } from "../../parts/basics.js";
import { Ask, Dialog, sayFault } from "../../parts/dialog.js";
import { ClearFilters, PickApp } from "../../parts/filters.js";
import { Table } from "../../parts/table.js";
import { Switch } from "../../parts/switch.js";
import { RuleForm } from "./ruleform.js";

export function Rules() {
  const { query } = useRoute();
  const list = useList({ method: "AlarmService/ListAlarmRules",
    body: { parent: parentOf(query.get("app")) }, field: "alarmRules" });
  const [editing, setEditing] = useState(/** @type {pb.AlarmRule | null} */ (null));
  const [gone, setGone] = useState(/** @type {pb.AlarmRule | null} */ (null));
  const fresh = () => setEditing({ name: "", condition: "CONDITION_RUN_FAILED",
    channels: [{ webhook: { url: "" } }] });
  const done = () => list.reload();
  const remove = () => call("AlarmService/DeleteAlarmRule", { name: gone?.name }).then(() =>
    list.remove([gone?.name ?? ""]));
  const add = can("EDITOR") &&
    html`<${Button} kind="main" icon="plus" onClick=${fresh}>${t("rule.new")}<//>`;
  return html`<div class="filters"><${PickApp} /><${ClearFilters} names=${["app"]} />
    <span class="grow"></span>${add}</div>
    <${Table} label=${t("alarms.rules")} list=${list}
      columns=${columnsOf(list, setEditing, setGone)}
      empty=${html`<${Empty} title=${t("rules.none")} hint=${t("rules.noneHint")}>${add}<//>`} />
    ${editing && html`<${RuleForm} rule=${editing} close=${() => setEditing(null)} done=${done} />`}
    ${gone && html`<${Ask} title=${t("rule.deleteTitle", { name: idOf(gone.name) })}
      lead=${t("rule.deleteLead")}
      verb=${t("do.delete")} danger close=${() => setGone(null)} act=${remove} />`}`;
}

/**
 * @param {any} list
 * @param {(rule: pb.AlarmRule) => void} edit
 * @param {(rule: pb.AlarmRule) => void} remove
 * @returns {import("../../parts/table.js").Column<pb.AlarmRule>[]}
 */
function columnsOf(list, edit, remove) {
  return [
    { id: "name", label: t("alarm.rule"), class: "first", cell: (rule) =>
      html`<span class="name"><span class="of">${appOf(rule.name ?? "")}/</span>
        ${idOf(rule.name)}</span>
      ${rule.displayName && html`<span class="under">${rule.displayName}</span>`}` },
    { id: "on", label: t("word.state"), cell: (rule) =>
      html`<${Enabled} rule=${rule} list=${list} />` },
    { id: "condition", label: t("alarm.condition"), cell: (rule) =>
      html`${t(`condition.${(rule.condition ?? "").replace("CONDITION_", "")}`)}
      ${(rule.threshold ?? 0) > 1 &&
        html`<span class="under">${t("rule.inARow", { n: rule.threshold ?? 0 })}</span>`}` },
    { id: "filter", label: t("rule.filter"), cell: (rule) =>
      html`<span class="mono">${rule.filter || t("rule.allJobs")}</span>` },
    { id: "channels", label: t("rule.channels"), cell: (rule) =>
      (rule.channels ?? []).map((channel, i) =>
      html`<span class="under" key=${i}>${channelWords(channel)}</span>`) },
    { id: "do", label: "", class: "do", cell: (rule) => html`<span class="row">
      ${can("OPERATOR", appOf(rule.name ?? "")) && html`<${TestButton} rule=${rule} />`}
      ${can("EDITOR", appOf(rule.name ?? "")) && html`
        <${Button} kind="quiet" icon="edit" label=${t("do.edit")} onClick=${() => edit(rule)} />
        <${Button} kind="quiet" icon="trash" label=${t("do.delete")} onClick=${() => remove(rule)}
          />`}</span>` },
  ];
}

/** @param {pb.Channel} channel */
const channelWords = (channel) =>
  channel.webhook ? `${t("channel.webhook")} ${channel.webhook.url ?? ""}`
    : channel.email ? `${t("channel.email")} ${(channel.email.to ?? []).join(", ")}`
      : `${t("channel.chatRobot")} ${channel.chatRobot?.vendor ?? ""}`;

/** @param {{ rule: pb.AlarmRule, list: any }} props */
function Enabled({ rule, list }) {
  const on = !rule.disabled;
  const text = t(on ? "rule.on" : "rule.off");
  if (!can("EDITOR", appOf(rule.name ?? ""))) return text;
  const flip = async () => {
    try {
      const body = { alarmRule: { name: rule.name, disabled: on, etag: rule.etag },
        updateMask: "disabled" };
      list.patch({ disabled: false, ...(await call("AlarmService/UpdateAlarmRule", body)) });
    } catch (error) {
      sayFault(error);
    }
  };
  return html`<${Switch} on=${on} flip=${flip} text=${text}
    label=${t("rule.switch", { name: idOf(rule.name) })} />`;
}

/**
 * Sends a sample by each channel, and says what came of it.
 * @param {{ rule: pb.AlarmRule }} props
 */
function TestButton({ rule }) {
  const [busy, setBusy] = useState(false);
  const [answer, setAnswer] = useState(/** @type {pb.TestAlarmRuleResponse | null} */ (null));
  const test = async () => {
    setBusy(true);
    await call("AlarmService/TestAlarmRule", { name: rule.name }).then((/** @type {any} */ got) =>
      setAnswer(got), sayFault);
    setBusy(false);
  };
  return html`<${Button} busy=${busy} onClick=${test}>${t("rule.test")}<//>
    ${answer && html`<${Dialog} title=${t("rule.tested", { name: idOf(rule.name) })}
      close=${() => setAnswer(null)}>
      ${(answer.deliveries ?? []).map((one, i) => html`<${Panel} key=${i}
        title=${html`<span class=${`state tone-${one.ok ? "ok" : "bad"}`}>
          ${t(one.ok ? "rule.arrived" : "rule.notArrived")}</span>`}>
        <p>${channelWords(rule.channels?.[one.channelIndex ?? i] ?? {})}</p>
        ${one.detail && html`<p class="minor">${one.detail}</p>`}<//>`)}<//>`}`;
}
