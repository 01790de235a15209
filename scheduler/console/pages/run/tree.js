// What a run belongs to: its shards, and the runs before and after it.
import { html, useState } from "../../lib/dom.js";
import { useEvery } from "../../lib/every.js";
import { t } from "../../lib/i18n.js";
import { useAsk } from "../../lib/list.js";
import { allOf, appOf, idOf, oneOf, quoted } from "../../lib/names.js";
import { call, listAll } from "../../lib/rpc.js";
import { isOpen, reason, stateOf, toneOf } from "../../lib/runs.js";
import { Fault, Panel } from "../../parts/basics.js";
import { Told } from "../../parts/person.js";
import { ExecutorLink, JobLink, RunLink, RunState, runHref } from "../../parts/state.js";
import { Elapsed, When } from "../../parts/when.js";

const SHARDS_MAX = 10_000;
const SHARDS_LISTED = 50;
const LIVE_MS = 3000;
/** Runs before this one that are followed back. */
const BACK_MAX = 8;
const AFTER_PAGE = 200;
/** The end is by the executor's clock, which may be ahead of the scheduler's. */
const CLOCKS_MS = 60_000;

/** @param {{ run: pb.Run }} props */
export function Shards({ run }) {
  const split = (run.shardTotal ?? 0) > 0 && !run.parentRun;
  const open = isOpen(stateOf(run.state));
  const [all, setAll] = useState(false);
  const asked = useAsk(async () => {
    if (!split) return [];
    const body = { parent: `apps/${appOf(run.name ?? "")}`,
      filter: `parent = ${quoted(run.name ?? "")}`,
      orderBy: "create_time" };
    return /** @type {pb.Run[]} */ (
      (await listAll("RunService/ListRuns", body, "runs", SHARDS_MAX)).items);
  }, [run.name, run.state]);
  useEvery(LIVE_MS, () => (split && open ? asked.again() : undefined));
  const shards = asked.value ?? [];
  if (!split || (shards.length === 0 && !asked.error)) return null;
  const sorted = [...shards].sort((a, b) => (a.shardIndex ?? 0) - (b.shardIndex ?? 0));
  const listed = all ? sorted : sorted.slice(0, SHARDS_LISTED);
  return html`<${Panel} title=${t("run.shards", { n: shards.length })}>
    <${Fault} error=${asked.error} again=${asked.again} />
    <div class="cells">${sorted.map((shard) =>
      html`<a key=${shard.name} href=${runHref(shard.name ?? "")}
      class=${`cell tone-${toneOf(stateOf(shard.state))}`}
      title=${`${shard.shardIndex ?? 0}: ${t(`state.${stateOf(shard.state)}`)}`}>
      <span class="sr">${shard.shardIndex ?? 0}</span></a>`)}</div>
    <table class="small"><thead><tr><th class="num">${t("run.shard")}</th><th>
      ${t("word.state")}</th>
      <th>${t("word.run")}</th><th>${t("word.executor")}</th><th class="num">
        ${t("run.elapsed")}</th>
      <th>${t("run.why")}</th></tr></thead><tbody>
        ${listed.map((shard) => html`<tr key=${shard.name}>
        <td class="num">${shard.shardIndex ?? 0}</td><td><${RunState} run=${shard} /></td>
        <td><${RunLink} name=${shard.name} /></td><td><${ExecutorLink} name=${shard.executor} />
          </td>
        <td class="num"><${Elapsed} run=${shard} /></td><td class="why">
          <${Told} text=${reason(shard)} /></td>
          </tr>`)}</tbody></table>
    ${sorted.length > listed.length &&
      html`<button type="button" class="link" onClick=${() => setAll(true)}>
      ${t("list.rest", { n: sorted.length - listed.length })}</button>`}<//>`;
}

/**
 * The runs before and after, as a tree.
 * @param {{ run: pb.Run, job: pb.Job | null | undefined }} props
 */
export function Chain({ run, job }) {
  const back = useAsk(() => before(run), [run.name]).value ?? [];
  const follows = [...(job?.onSuccess ?? []), ...(job?.onFailure ?? [])];
  if (back.length === 0 && (follows.length === 0 || !run.endTime)) return null;
  /** @type {any} */
  let tree = html`<li><${Node} run=${run} here /><${After} run=${run} jobs=${follows} /></li>`;
  for (const { link, run: other } of back) {
    tree = html`<li><${Node} run=${other} link=${link} /><ul>${tree}</ul></li>`;
  }
  return html`<${Panel} title=${t("run.chain")}><ul class="tree">${tree}</ul><//>`;
}

/** @param {{ run: pb.Run, here?: boolean, link?: string }} props */
const Node = ({ run, here, link }) =>
  html`<span class=${here ? "node here" : "node"}><${RunState} run=${run} />
    <${JobLink} name=${run.job} /> <${RunLink} name=${run.name} /> <${When} at=${run.fireTime}
      bare />
    ${link && html`<span class="minor">${t(`chain.${link}`)}</span>`}</span>`;

/**
 * What led to the run, nearest first.
 * @param {pb.Run} run
 */
async function before(run) {
  /** @type {{ link: string, run: pb.Run }[]} */
  const found = [];
  let at = run;
  while (found.length < BACK_MAX) {
    const link = at.causedBy ? "causedBy" : at.parentRun ? "parentRun" : at.rerunOf ?
      "rerunOf" : "";
    const name = at.causedBy || at.parentRun || at.rerunOf;
    if (!name) break;
    try {
      at = await call("RunService/GetRun", { name, view: "RUN_VIEW_BASIC" });
    } catch {
      // Of an app that the viewer may not see, or older than runs are kept.
      break;
    }
    found.push({ link, run: at });
  }
  return found;
}

/** The runs that the end of a run started. @param {{ run: pb.Run, jobs: string[] }} props */
function After({ run, jobs }) {
  const asked = useAsk(async () => {
    if (!run.endTime) return [];
    const lists = await Promise.all(jobs.map((job) => startedBy(run, job)));
    return lists.flat();
  }, [run.name, run.endTime, jobs.join()]);
  useEvery(LIVE_MS, () => (run.endTime && !asked.value?.length ? asked.again() : undefined));
  if (!asked.value?.length) return null;
  return html`<ul>${asked.value.map((next) =>
    html`<li key=${next.name}><${Node} run=${next} link="started" />
    <${Further} run=${next} /></li>`)}</ul>`;
}

/** One step further, when somebody wants to see it. @param {{ run: pb.Run }} props */
function Further({ run }) {
  const [open, setOpen] = useState(false);
  const job = useAsk(async () => (open ? /** @type {Promise<pb.Job>} */ (
    call("JobService/GetJob", { name: run.job })) : undefined), [open, run.job]).value;
  if (!open) {
    return html` <button type="button" class="link" onClick=${() => setOpen(true)}
      aria-label=${t("chain.furtherOf", { name: idOf(run.job) })}>${t("chain.further")}</button>`;
  }
  const jobs = [...(job?.onSuccess ?? []), ...(job?.onFailure ?? [])];
  return job ? html`<${After} run=${run} jobs=${jobs} />` : null;
}

/** @param {pb.Run} run @param {string} job */
async function startedBy(run, job) {
  const from = new Date(Date.parse(run.endTime ?? "") - CLOCKS_MS).toISOString();
  const filter = allOf(oneOf("job", [job]), "trigger = CHAIN", `create_time >= ${quoted(from)}`);
  const body = { parent: `apps/${appOf(job)}`, filter, pageSize: AFTER_PAGE,
    orderBy: "create_time" };
  try {
    /** @type {pb.ListRunsResponse} */
    const page = await call("RunService/ListRuns", body);
    return (page.runs ?? []).filter((other) => other.causedBy === run.name);
  } catch {
    return [];
  }
}
