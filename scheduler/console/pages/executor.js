// One executor: how it is, what it offers, what it runs.
import { html, useState } from "../lib/dom.js";
import { number, t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { go, href } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { can } from "../lib/session.js";
import { length, seconds } from "../lib/time.js";
import { Button, Empty, Facts, Fault, Loading, PageHead, Panel } from "../parts/basics.js";
import { Ask, sayFault } from "../parts/dialog.js";
import { TextField, TickField } from "../parts/form.js";
import { Slots } from "../parts/meter.js";
import { Labels, Life, RunLink } from "../parts/state.js";
import { When } from "../parts/when.js";
import { RunsTable } from "./runs.js";

const LIVE_MS = 3000;

/** @param {{ app: string, id: string }} props */
export function Executor({ app, id }) {
  const name = `apps/${app}/executors/${id}`;
  /** @returns {Promise<pb.Executor>} */
  const ask = () => call("FleetService/GetExecutor", { name });
  const asked = useAsk(ask, [name], LIVE_MS);
  const one = asked.value;
  const up = { href: href("/executors"), text: t("page.executors") };
  if (!one) {
    return asked.error ? html`<${PageHead} title=${id} up=${up} />
      <${Fault} error=${asked.error} again=${asked.again} />`
      : html`<${Loading} />`;
  }
  const query = new URLSearchParams({ app, executor: id });
  return html`<${PageHead} up=${up} title=${html`<span class="of">${app}/</span>${id}`}
      lead=${html`<${Life} state=${one.state} />
        ${one.cordoned && html` <span class="tag tone-late">${t("executor.cordoned")}</span>`}`}>
      ${can("OPERATOR", app) && html`<${Actions} one=${one} again=${asked.again} />`}<//>
    <${Fault} error=${asked.error} again=${asked.again} />
    <div class="columns">
      <${Panel} title=${t("run.facts")}><${Facts} of=${facts(one)} /><//>
      <${Panel} title=${t("executor.handlers")}>${one.handlers?.length
        ? html`<table class="small"><tbody>
          ${one.handlers.map((handler) => html`<tr key=${handler.name}>
            <td class="mono">${handler.name}</td><td>${handler.description}</td>
            <td class="num">${handler.maxConcurrency ?
              t("executor.atOnce", { n: handler.maxConcurrency }) : ""}</td></tr>`)}</tbody>
                </table>`
        : html`<${Empty} title=${t("executor.noHandlers")} />`}<//>
    </div>
    <h2 class="section">${t("page.runs")}</h2>
    <${RunsTable} jobs=${[]} query=${query} label=${t("page.runs")}
      empty=${html`<${Empty} title=${t("runs.noMatch")} />`} />`;
}

/** @param {pb.Executor} one @returns {[string, any][]} */
function facts(one) {
  const { sdk = {} } = one;
  const span = (/** @type {string | undefined} */ text) => text && length(seconds(text) * 1000);
  const share = (/** @type {number | undefined} */ value) => value !== undefined &&
    `${number(value * 100)} %`;
  return [
    [t("executor.slots"), html`<${Slots} of=${one} />`],
    [t("home.running"), one.running?.length ?
      one.running.map((run) => html`<${RunLink} key=${run} name=${run} /> `) : "0"],
    [t("executor.load"), share(one.cpu)],
    [t("executor.memory"), share(one.memory)],
    [t("word.labels"), Object.keys(one.labels ?? {}).length > 0 &&
      html`<${Labels} labels=${one.labels} />`],
    [t("executor.sdk"), `${sdk.language ?? ""} ${sdk.sdkVersion ?? ""} (${sdk.runtimeVersion ??
      ""})`],
    [t("executor.host"), `${sdk.hostname ?? ""} · ${sdk.os ?? ""} ${sdk.arch ??
      ""} · pid ${sdk.pid ?? ""}`],
    [t("executor.address"), one.peerAddress],
    [t("word.node"), one.nodeId],
    [t("executor.connected"), html`<${When} at=${one.connectTime} rel />`],
    [t("executor.seen"), html`<${When} at=${one.lastHeartbeatTime} rel />`],
    [t("node.offset"), span(one.clockOffset)],
    [t("executor.lag"), span(one.lag)],
    [t("executor.reconnects"), one.reconnectsLastHour],
    [t("executor.abandoned"), one.abandonedHandlers],
    [t("executor.session"), html`<span class="mono">${one.sessionId}</span>`],
  ];
}

/** @param {{ one: pb.Executor, again: () => void }} props */
function Actions({ one, again }) {
  const [asking, setAsking] = useState("");
  const [reason, setReason] = useState("");
  const [kill, setKill] = useState(false);
  const { name } = one;
  const close = () => setAsking("");
  const offline = one.state === "STATE_OFFLINE";
  const uncordon = () => call("FleetService/UncordonExecutor", { name }).then(again, sayFault);
  const cordon = () => call("FleetService/CordonExecutor", { name, reason }).then(again);
  const disconnect = () =>
    call("FleetService/DisconnectExecutor", { name, killRuns: kill }).then(again);
  const forget = () => call("FleetService/DeleteExecutor", { name }).then(() =>
    go(href("/executors")));
  return html`${one.cordoned
      ? html`<${Button} kind="main" icon="play" onClick=${uncordon}>${t("executor.uncordon")}<//>`
      : html`<${Button} icon="pause" onClick=${() => setAsking("cordon")}>
        ${t("executor.cordon")}<//>`}
    ${offline
      ? html`<${Button} kind="danger" icon="trash" onClick=${() => setAsking("forget")}>
        ${t("executor.forget")}<//>`
      : html`<${Button} kind="danger" icon="out" onClick=${() => setAsking("disconnect")}>
        ${t("executor.disconnect")}<//>`}
    ${asking === "cordon" &&
      html`<${Ask} title=${t("executor.cordon")} lead=${t("executor.cordonLead")}
      verb=${t("executor.cordon")} close=${close} act=${cordon}>
      <${TextField} label=${t("word.reason")} value=${reason} change=${setReason} /><//>`}
    ${asking === "disconnect" &&
      html`<${Ask} title=${t("executor.disconnect")} lead=${t("executor.disconnectLead")}
      verb=${t("executor.disconnect")} danger close=${close} act=${disconnect}>
      <${TickField} label=${t("executor.kill")} value=${kill} change=${setKill} /><//>`}
    ${asking === "forget" &&
      html`<${Ask} title=${t("executor.forget")} lead=${t("executor.forgetLead")}
      verb=${t("executor.forget")} danger close=${close} act=${forget} />`}`;
}
