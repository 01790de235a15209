// What needs somebody's eye, from all that is known on the home page.
import { atLeast, t } from "../../lib/i18n.js";
import { appOf, shortOf } from "../../lib/names.js";
import { href } from "../../lib/router.js";
import { reason, stateOf } from "../../lib/runs.js";
import { seconds } from "../../lib/time.js";
import { endOf } from "../../lib/pulse.js";
import { runHref } from "../../parts/state.js";

/** A run that waits for longer than this is told of. */
const WAITING_MS = 10_000;
const LAG_S = 5;
const OFFSET_S = 2;

/**
 * @typedef {object} Finding
 * @property {string} id
 * @property {"bad" | "late"} tone
 * @property {string} what
 * @property {string} [why]
 * @property {number} [since]
 * @property {string} to where it is seen
 */

/**
 * @param {import("../../lib/pulse.js").Pulse} pulse
 * @param {import("../home.js").Fleet} fleet
 * @returns {Finding[]} the worst first
 */
export function findings(pulse, fleet) {
  return [...ofNodes(fleet.cluster), ...ofExecutors(fleet.executors.items), ...ofJobs(pulse),
    ...ofWaiting(pulse), ...ofAlarms(fleet.alarms)];
}

/** @param {import("../../lib/pulse.js").Pulse} pulse @returns {Finding[]} */
function ofJobs(pulse) {
  return pulse.failing().map(({ job, runs }) => ({
    id: job,
    tone: "bad",
    what: t(`finding.${stateOf(runs[0].state)}`, { job: shortOf(job), n: runs.length }),
    why: reason(runs[0]),
    since: endOf(runs[runs.length - 1]),
    to: runHref(runs[0].name ?? ""),
  }));
}

/** @param {import("../../lib/pulse.js").Pulse} pulse @returns {Finding[]} */
function ofWaiting(pulse) {
  const now = Date.now();
  /** @type {Map<string, pb.Run[]>} */
  const byJob = new Map();
  for (const run of pulse.open(["QUEUED"])) {
    if (now - dueOf(run) < WAITING_MS) continue;
    byJob.set(run.job ?? "", [...(byJob.get(run.job ?? "") ?? []), run]);
  }
  return [...byJob].map(([job, runs]) => ({
    id: `waiting ${job}`,
    tone: "late",
    what: t("finding.waiting", { job: shortOf(job), n: runs.length }),
    why: runs.find((run) => run.stateMessage)?.stateMessage,
    since: Math.min(...runs.map(dueOf)),
    to: href("/runs", { state: "QUEUED", job: shortOf(job) }),
  }));
}

/** @param {pb.Run} run */
const dueOf = (run) => Date.parse(run.dueTime ?? run.createTime ?? "");

/** @param {pb.Executor[]} executors @returns {Finding[]} */
function ofExecutors(executors) {
  /** @type {Map<string, pb.Executor[]>} */
  const byApp = new Map();
  for (const executor of executors) {
    const app = appOf(executor.name ?? "");
    byApp.set(app, [...(byApp.get(app) ?? []), executor]);
  }
  /** @type {Finding[]} */
  const found = [];
  for (const [app, all] of byApp) {
    const seen = Math.max(...all.map((one) => Date.parse(one.lastHeartbeatTime ?? "") || 0));
    if (all.every((one) => one.state === "STATE_OFFLINE")) {
      found.push({ id: `app ${app}`, tone: "bad", what: t("finding.noExecutor", { app }),
        why: t("finding.noExecutorWhy"), since: seen, to: href("/executors", { app }) });
    }
    for (const one of all.filter((other) => other.state === "STATE_SUSPECT")) {
      found.push({ id: one.name ?? "", tone: "late",
        what: t("finding.suspect", { name: shortOf(one.name) }), why: t("finding.suspectWhy"),
        since: Date.parse(one.lastHeartbeatTime ?? ""), to: href("/executors", { app }) });
    }
  }
  return found;
}

/** @param {pb.Cluster} cluster @returns {Finding[]} */
function ofNodes(cluster) {
  const nodes = cluster.nodes ?? [];
  /** @type {Finding[]} */
  const found = [];
  const to = href("/cluster");
  if (cluster.problem) {
    const why = cluster.problem;
    found.push({ id: "problem", tone: "bad", what: t("finding.problem"), why, to });
  }
  const held = nodes.filter((node) => node.state !== "STATE_GONE" && node.partitions?.length);
  if (held.length === 0) {
    found.push({ id: "owner", tone: "bad", what: t("finding.noOwner"),
      why: t("finding.noOwnerWhy"), to });
  }
  for (const node of nodes.filter((one) => one.state !== "STATE_GONE")) {
    const name = (node.name ?? "").replace("nodes/", "");
    const [lag, offset] = [seconds(node.lag) || 0, seconds(node.clockOffset) || 0];
    if (lag > LAG_S) {
      const what = t("finding.lag", { name, s: Math.round(lag) });
      found.push({ id: `lag ${name}`, tone: "late", what, to });
    }
    if (Math.abs(offset) > OFFSET_S) {
      const what = t("finding.offset", { name, s: Math.round(offset) });
      found.push({ id: `clock ${name}`, tone: "late", what, to });
    }
  }
  return found;
}

/** @param {import("../home.js").Fleet["alarms"]} alarms @returns {Finding[]} */
function ofAlarms({ items, more }) {
  if (items.length === 0) return [];
  return [{
    id: "alarms",
    tone: "late",
    what: t("finding.alarms", { n: more ? atLeast(items.length, more) : items.length }),
    why: items[0].subject,
    // The oldest of all is not known when there are more.
    since: more ? undefined : Date.parse(items[items.length - 1].fireTime ?? ""),
    to: href("/alarms"),
  }];
}
