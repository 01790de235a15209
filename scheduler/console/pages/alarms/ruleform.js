// A rule of alarms, new or changed. What is secret is written only, and stays when left empty.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { appOf, idOf, requestId } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { Button, Loading } from "../../parts/basics.js";
import { Ask } from "../../parts/dialog.js";
import { onlyOf, useOwnApps } from "../../parts/filters.js";
import { NumberField, SelectField, TextField, WordsField } from "../../parts/form.js";
import { pathOf } from "../jobform/model.js";

const CONDITIONS = ["RUN_FAILED", "RUN_LOST", "RUN_SUCCEEDED"];

/** @typedef {{ rule: pb.AlarmRule, close: () => void, done: () => void }} Props */

/** @param {Props} props */
export function RuleForm(props) {
  const { apps, asked } = useOwnApps();
  return asked ? html`<${Form} ...${props} apps=${apps} />` : html`<${Loading} />`;
}

/** @param {Props & { apps: string[] | undefined }} props */
function Form({ rule: from, apps = [], close, done }) {
  const [rule, setRule] = useState(from);
  const [app, setApp] = useState(from.name ? appOf(from.name) : onlyOf(apps));
  const [id, setId] = useState(idOf(from.name));
  const [faults, setFaults] = useState(/** @type {Map<string, string>} */ (new Map()));
  /** @param {Partial<pb.AlarmRule>} more */
  const set = (more) => setRule((before) => ({ ...before, ...more }));
  const channels = rule.channels ?? [];
  const act = async () => {
    try {
      await (from.name
        ? call("AlarmService/UpdateAlarmRule",
          { alarmRule: rule, updateMask: "displayName,condition,filter,threshold,channels" })
        : call("AlarmService/CreateAlarmRule", { parent: `apps/${app}`, alarmRuleId: id,
          alarmRule: { ...rule, name: undefined }, requestId: requestId() }));
    } catch (error) {
      const { fields = [] } = /** @type {import("../../lib/rpc.js").RpcError} */ (error);
      setFaults(new Map(fields.map((one) => [pathOf(one.field).replace(/^alarmRule\./, ""),
        one.description])));
      throw error;
    }
    done();
  };
  return html`<${Ask} title=${from.name ? t("rule.edit", { name: idOf(from.name) }) :
    t("rule.new")} wide
    verb=${t("do.save")} close=${close} act=${act}>
    <div class="fields">
      ${from.name ? "" : html`<${SelectField} label=${t("word.app")} value=${app} change=${setApp}
        none="–"
          options=${apps.map((one) => [one, one])} fault=${faults.get("parent")} />
        <${TextField} label=${t("form.id")} value=${id} change=${setId} must mono
          fault=${faults.get("alarmRuleId")} />`}
      <${TextField} label=${t("form.displayName")} value=${rule.displayName ?? ""}
        fault=${faults.get("displayName")}
        change=${(/** @type {string} */ displayName) => set({ displayName })} />
      <${SelectField} label=${t("alarm.condition")} value=${rule.condition ?? ""}
        fault=${faults.get("condition")}
        change=${(/** @type {string} */ condition) => set({ condition })}
        options=${CONDITIONS.map((one) => [`CONDITION_${one}`, t(`condition.${one}`)])} />
      <${NumberField} label=${t("rule.threshold")} hint=${t("rule.thresholdHint")}
        value=${rule.threshold} placeholder=${t("form.default", { text: "1" })}
        change=${(/** @type {number | undefined} */ threshold) => set({ threshold })}
          fault=${faults.get("threshold")} />
      <${TextField} label=${t("rule.filter")} hint=${t("rule.filterHint")}
        value=${rule.filter ?? ""} mono
        change=${(/** @type {string} */ filter) => set({ filter })} fault=${faults.get("filter")} />
    </div>
    ${channels.map((channel, i) => html`<${ChannelFields} key=${i} channel=${channel}
      faultOf=${(/** @type {string} */ path) => faults.get(`channels[${i}].${path}`)}
      change=${(/** @type {pb.Channel} */ next) => set({ channels: channels.with(i, next) })}
      remove=${channels.length > 1 && (() => set({ channels: channels.toSpliced(i, 1) }))} />`)}
    <div class="row">
      <${Button} icon="plus" onClick=${() => set(
        { channels: [...channels, { webhook: { url: "" } }] })}>${t("channel.webhook")}<//>
      <${Button} icon="plus" onClick=${() => set(
        { channels: [...channels, { email: { to: [] } }] })}>${t("channel.email")}<//></div><//>`;
}

/**
 * @param {{
 *   channel: pb.Channel, change: (next: pb.Channel) => void, remove: (() => void) | false,
 *   faultOf: (path: string) => string | undefined,
 * }} props
 */
function ChannelFields({ channel, change, remove, faultOf }) {
  const { webhook, email } = channel;
  return html`<fieldset class="channel"><legend>
    ${t(webhook ? "channel.webhook" : "channel.email")}</legend><div class="fields">
    ${webhook && html`
      <${TextField} label=${t("channel.url")} value=${webhook.url ?? ""} must
        placeholder="https://…" fault=${faultOf("webhook.url")}
        change=${(/** @type {string} */ url) =>
          change({ webhook: { ...webhook, url: url.trim() } })} />
      <${TextField} label=${t("channel.secret")} value=${webhook.secret ?? ""} type="password"
        hint=${t("channel.secretHint")}
        fault=${faultOf("webhook.secret")}
          change=${(/** @type {string} */ secret) => change({ webhook: { ...webhook, secret } })}
            />`}
    ${email && html`<${WordsField} label=${t("channel.to")} value=${email.to} must
      placeholder="oncall@example.com"
      fault=${faultOf("email.to") ?? faultOf("email")}
        change=${(/** @type {string[]} */ to) => change({ email: { to: to ?? [] } })} />`}
    ${remove && html`<${Button} kind="quiet" icon="trash" label=${t("channel.remove")}
      onClick=${remove} />`}
  </div></fieldset>`;
}
