// The small tables of the home page.
import { html } from "../../lib/dom.js";
import { number, t } from "../../lib/i18n.js";
import { appOf } from "../../lib/names.js";
import { href } from "../../lib/router.js";
import { instant, length, seconds } from "../../lib/time.js";
import { Empty, Loading } from "../../parts/basics.js";
import { ExecutorLink, JobLink, Life, RunLink, RunState } from "../../parts/state.js";
import { Since } from "../../parts/when.js";
import { Meter } from "../../parts/meter.js";
import { NoExecutors } from "../executors.js";

const RUNNING_SHOWN = 8;

/** @param {{ runs: pb.Run[] }} props */
export function RunningTable({ runs }) {
  if (runs.length === 0) return html`<${Empty} title=${t("home.nothingRuns")} />`;
  const oldest = [...runs].sort((a, b) => instant(a.startTime) - instant(b.startTime));
  return html`<table class="small"><thead><tr><th>${t("word.job")}</th><th>${t("word.run")}</th>
      <th>${t("word.state")}</th><th>${t("word.executor")}</th><th class="num">
        ${t("run.elapsed")}</th></tr></thead>
    <tbody>${oldest.slice(0, RUNNING_SHOWN).map((run) => html`<tr key=${run.name}>
      <td><${JobLink} name=${run.job} /></td><td><${RunLink} name=${run.name} /></td>
      <td><${RunState} run=${run} /></td><td><${ExecutorLink} name=${run.executor} /></td>
      <td class="num"><${Since} since=${run.startTime ?? run.dueTime} /></td></tr>`)}</tbody>
        </table>`;
}

/**
 * What connected executors have to give; a cordoned one has nothing free.
 * @param {pb.Executor[]} executors
 */
export function slotsOf(executors) {
  const online = executors.filter((one) => one.state === "STATE_ONLINE");
  const open = online.filter((one) => !one.cordoned);
  return {
    online: online.length,
    slots: online.reduce((n, one) => n + (one.slots ?? 0), 0),
    free: open.reduce((n, one) => n + (one.freeSlots ?? 0), 0),
  };
}

/** Executors and free slots by app. @param {{ executors: pb.Executor[] | undefined }} props */
export function AppsTable({ executors }) {
  if (!executors) return html`<${Loading} />`;
  if (executors.length === 0) {
    return html`<${NoExecutors} />`;
  }
  /** @type {Map<string, pb.Executor[]>} */
  const apps = new Map();
  for (const one of executors) {
    const app = appOf(one.name ?? "");
    apps.set(app, [...(apps.get(app) ?? []), one]);
  }
  return html`<table class="small"><thead><tr><th>${t("word.app")}</th><th class="num">
    ${t("home.online")}</th>
      <th>${t("home.used")}</th><th class="num">${t("home.free")}</th></tr></thead>
    <tbody>${[...apps.keys()].sort().map((app) => {
      const all = apps.get(app) ?? [];
      const { online, slots, free } = slotsOf(all);
      return html`<tr key=${app}>
      <td><a class="name" href=${href("/executors", { app })}>${app}</a></td>
      <td class="num">${number(online)}<span class="of"> / ${number(all.length)}</span></td>
      <td><${Meter} value=${slots - free} max=${slots} label=${t("home.used")} /></td>
      <td class="num">${number(free)}</td></tr>`;
    })}</tbody></table>`;
}

/** @param {{ cluster: pb.Cluster | undefined }} props */
export function NodesTable({ cluster }) {
  if (!cluster) return html`<${Loading} />`;
  return html`<table class="small"><thead><tr><th>${t("word.node")}</th><th>${t("word.state")}</th>
      <th class="num">${t("node.partitions")}</th><th class="num">${t("node.sessions")}</th>
      <th class="num">${t("node.lag")}</th><th class="num">${t("node.offset")}</th>
      <th class="num">${t("node.database")}</th></tr></thead>
    <tbody>${(cluster.nodes ?? []).map((node) => html`<tr key=${node.name}>
      <td class="mono">${(node.name ?? "").replace("nodes/", "")}</td><td>
        <${Life} state=${node.state} /></td>
      <td class="num">${number(node.partitions?.length ?? 0)}</td>
      <td class="num">${number(node.sessions ?? 0)}</td>
      <td class="num">${length((seconds(node.lag) || 0) * 1000)}</td>
      <td class="num">${length((seconds(node.clockOffset) || 0) * 1000)}</td>
      <td class="num">${length((seconds(node.databaseLatency) || 0) * 1000)}</td></tr>`)}</tbody>
        </table>`;
}
