// The scheduler itself: nodes, who holds what, how far behind.
import { html, useState } from "../lib/dom.js";
import { number, t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { call } from "../lib/rpc.js";
import { can } from "../lib/session.js";
import { length, seconds } from "../lib/time.js";
import { Button, Facts, Fault, Loading, PageHead, Panel } from "../parts/basics.js";
import { Ask } from "../parts/dialog.js";
import { Told } from "../parts/person.js";
import { Life } from "../parts/state.js";
import { When } from "../parts/when.js";

const LIVE_MS = 3000;
/** Shares of the jobs; their number is fixed. */
const PARTITIONS = 64;
const OFFSET_S = 2;
const LAG_S = 5;

export function Cluster() {
  const asked = useAsk(() =>
    /** @type {Promise<pb.Cluster>} */ (call("ClusterService/GetCluster")), [], LIVE_MS);
  const info = useAsk(() =>
    /** @type {Promise<pb.ServerInfo>} */ (call("ClusterService/GetServerInfo")), []).value;
  const cluster = asked.value;
  if (!cluster) {
    return html`<${PageHead} title=${t("page.cluster")} />${asked.error
      ? html`<${Fault} error=${asked.error} again=${asked.again} />` : html`<${Loading} />`}`;
  }
  const isGone = (/** @type {pb.Node} */ node) => Number(node.state === "STATE_GONE");
  const nodes = [...cluster.nodes ?? []].sort((a, b) => isGone(a) - isGone(b));
  return html`<${PageHead} title=${t("page.cluster")} />
    <${Fault} error=${asked.error} again=${asked.again} />
    ${cluster.problem && html`<div class="failure tone-bad"><p><b>${t("finding.problem")}</b></p>
      <p><${Told} text=${cluster.problem} /></p></div>`}
    <div class="columns">
      <${Panel} title=${t("cluster.backlog")}><${Facts} of=${[
        [t("home.running"), number(Number(cluster.runningRuns ?? 0))],
        [t("group.waiting"), number(Number(cluster.queuedRuns ?? 0))],
        [t("home.online"), number(cluster.onlineExecutors ?? 0)],
        [t("cluster.storage"), cluster.storage],
        [t("cluster.version"), info?.version],
        [t("cluster.here"), info?.nodeId],
      ]} /><//>
      <${Panel} title=${t("node.partitions")}><${Partitions} nodes=${nodes} /><//>
    </div>
    ${nodes.map((node) => html`<${NodePanel} key=${node.name} node=${node} again=${asked.again}
      />`)}`;
}

/** Who holds which share of the jobs. @param {{ nodes: pb.Node[] }} props */
function Partitions({ nodes }) {
  const holders = nodes.filter((node) => node.partitions?.length);
  /** @type {(number | undefined)[]} */
  const holder = Array.from({ length: PARTITIONS }, (_, share) =>
    holders.findIndex((node) => node.partitions?.includes(share)));
  return html`<div class="partitions" role="img" aria-label=${t("cluster.partitionsWords",
      { n: holder.filter((at) => at !== -1).length, all: PARTITIONS })}>${holder.map((at, share) =>
      html`<span key=${share} class=${at === -1 ? "share free" : `share share-${(at ?? 0) % 6}`}
        title=${`${share}: ${at === -1 ? t("cluster.nobody") : holders[at ?? 0].name}`}>
          </span>`)}</div>
    <ul class="plain legend">
      ${holders.map((node, at) =>
        html`<li key=${node.name}><span class=${`share share-${at % 6}`}></span>
      <span class="mono">${(node.name ?? "").replace("nodes/", "")}</span> ${number(
        node.partitions?.length ?? 0)}</li>`)}</ul>`;
}

/** @param {{ node: pb.Node, again: () => void }} props */
function NodePanel({ node, again }) {
  const [asking, setAsking] = useState(false);
  const span = (/** @type {string | undefined} */ text) => length((seconds(text) || 0) * 1000);
  const mark = (/** @type {string | undefined} */ text, /** @type {number} */ most) =>
    html`<span class=${Math.abs(seconds(text) || 0) > most ? "bad" : ""}>${span(text)}</span>`;
  // Of a node that is gone no more is known than where it was and when.
  const gone = node.state === "STATE_GONE";
  const drain = () => call("ClusterService/DrainNode", { name: node.name }).then(again);
  return html`<${Panel} title=${html`<span class="mono">
    ${(node.name ?? "").replace("nodes/", "")}</span>
      <${Life} state=${node.state} />`}
    aside=${node.state === "STATE_ACTIVE" && can("ADMIN", "*") && html`
      <${Button} icon="out" onClick=${() => setAsking(true)}>${t("node.drain")}<//>`}>
    <${Facts} of=${[
      [t("node.partitions"), !gone && number(node.partitions?.length ?? 0)],
      [t("node.sessions"), !gone && number(node.sessions ?? 0)],
      [t("node.lag"), !gone && mark(node.lag, LAG_S)],
      [t("node.offset"), !gone && mark(node.clockOffset, OFFSET_S)],
      [t("node.database"), !gone && span(node.databaseLatency)],
      [t("node.address"), node.advertiseAddress],
      [t("cluster.version"), node.version],
      [t("node.started"), html`<${When} at=${node.startTime} rel />`],
      [t("executor.seen"), html`<${When} at=${node.lastSeenTime} rel />`],
    ]} />
    ${asking && html`<${Ask} title=${t("node.drain")} lead=${t("node.drainLead")}
      verb=${t("node.drain")} danger
      close=${() => setAsking(false)} act=${drain} />`}<//>`;
}
