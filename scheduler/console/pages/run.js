// One run: what happened, what it was given, what came out, what it wrote.
import { html, useEffect, useState } from "../lib/dom.js";
import { useEvery } from "../lib/every.js";
import { t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { appOf, idOf } from "../lib/names.js";
import { href, useRoute, setQuery } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { isOpen, lateness, missedTimes, reason, stateOf, toneOf,
  waitedAgain } from "../lib/runs.js";
import { zoneOf } from "../lib/schedules.js";
import { length } from "../lib/time.js";
import { told } from "../lib/told.js";
import { Facts, Fault, Loading, PageHead, Panel } from "../parts/basics.js";
import { Code, Copy, Payload } from "../parts/code.js";
import { Meter } from "../parts/meter.js";
import { Person, Told } from "../parts/person.js";
import { ExecutorLink, JobLink, Labels, RunLink, RunState } from "../parts/state.js";
import { Elapsed, When } from "../parts/when.js";
import { RunActions } from "./run/actions.js";
import { RunLog } from "./run/log.js";
import { Missed } from "./run/missed.js";
import { Timeline } from "./run/timeline.js";
import { Chain, Shards } from "./run/tree.js";
import { triggerOf } from "./runs.js";

const LIVE_MS = 1000;

/** @param {{ app: string, id: string }} props */
export function Run({ app, id }) {
  const name = `apps/${app}/runs/${id}`;
  const asked = useAsk(() => /** @type {Promise<pb.Run>} */ (call("RunService/GetRun", { name })),
    [name]);
  const run = asked.value;
  const job = useAsk(async () => (run?.job ? askJob(run.job) : undefined), [run?.job]).value;
  const state = stateOf(run?.state);
  useEvery(LIVE_MS, () => (run && isOpen(state) ? asked.again() : undefined));
  if (!run) {
    return asked.error
      ? html`<${PageHead} title=${t("word.run")}
        up=${{ href: href("/runs"), text: t("page.runs") }} />
          <${Fault} error=${asked.error} again=${asked.again} />`
      : html`<${Loading} />`;
  }
  const zone = zoneOf(job ?? undefined);
  return html`<${PageHead} up=${{ href: href("/runs"), text: t("page.runs") }}
      title=${html`<${JobLink} name=${run.job} /> <span class="mono of">
        ${id}</span> <${Copy} text=${name} />`}
      lead=${html`<${RunState} run=${run} /> 
        ${!run.failure && !missedTimes(run) && html`<${Told} text=${reason(run)} />`}`}>
      <${RunActions} run=${run} job=${job} again=${asked.again} /><//>
    <${Fault} error=${asked.error} again=${asked.again} />
    ${run.failure && html`<${Failed} failure=${run.failure} tone=${toneOf(state)} />`}
    ${missedTimes(run) > 0 && html`<${Missed} run=${run} zone=${zone} />`}
    ${run.progress !== undefined && isOpen(state) && html`<div class="progress">
      <${Meter} value=${run.progress} max=${1} label=${t("run.progress")}
        text=${`${Math.round(run.progress * 100)}% ${run.progressMessage ?? ""}`} /></div>`}
    <div class="columns wide-left">
      <${Panel} title=${t("run.timeline")}><${Timeline} run=${run} zone=${zone} /><//>
      <${Panel} title=${t("run.facts")}><${Facts} of=${facts(run, zone)} /><//>
      <${Panel} title=${t("run.params")}>
        <${Payload} of=${run.params} label=${t("run.params")} none=${t("run.noParams")} /><//>
      <${Panel} title=${t("run.output")}><${Payload} of=${run.output} label=${t("run.output")}
        none=${t(isOpen(state) ? "run.noOutputYet" : "run.noOutput")} /><//>
    </div>
    <${Shards} run=${run} />
    <${Chain} run=${run} job=${job} />
    <${LogPanel} run=${run} zone=${zone} />`;
}

/** The job of a run, unless it was deleted. @param {string} name */
async function askJob(name) {
  try {
    return /** @type {pb.Job} */ (await call("JobService/GetJob", { name }));
  } catch {
    return null;
  }
}

/** @param {{ run: pb.Run, zone: string }} props */
function LogPanel({ run, zone }) {
  const { query } = useRoute();
  const attempts = Math.max(1, run.attempts?.at(-1)?.number ?? 1);
  const asked = Number(query.get("attempt")) || attempts;
  const [at, setAt] = useState(Math.min(asked, attempts));
  useEffect(() => {
    if (!query.get("attempt")) setAt(attempts);
  }, [attempts]);
  // What a split run wrote is in the logs of its shards.
  if (!run.attempts?.some((one) => one.executor)) return null;
  if (at !== attempts && query.get("attempt") !== String(at)) setQuery({ attempt: String(at) });
  return html`<${Panel} title=${t("run.log")}>
    <${RunLog} run=${run.name ?? ""} attempt=${at} attempts=${attempts} zone=${zone} /><//>`;
}

/** Why it failed. @param {{ failure: pb.Failure, tone: string }} props */
const Failed = ({ failure, tone }) =>
  html`<section class=${`failure tone-${tone}`} aria-label=${t("run.failure")}>
    <p><b class="mono">${failure.code}</b>
      ${failure.type && failure.type !== failure.code &&
        html`<span class="mono of"> ${failure.type}</span>`}
      ${failure.nonRetryable && html`<span class="tag">${t("run.nonRetryable")}</span>`}</p>
    <p class="failure-message">${told(failure.message)}</p>
    ${failure.stack && html`<details open><summary>${t("run.stack")}</summary>
      <${Code} text=${failure.stack} label=${t("run.stack")} /></details>`}</section>`;

/** @param {pb.Run} run @param {string} zone @returns {[string, any][]} */
function facts(run, zone) {
  const trace = run.traceparent?.split("-")[1];
  const when = (/** @type {string | undefined} */ at) => at &&
    html`<${When} at=${at} zone=${zone} />`;
  const other = (/** @type {string | undefined} */ name) => name &&
    html`<${RunLink} name=${name} />`;
  return [
    [t("run.fire"), when(run.fireTime)],
    [t(waitedAgain(run) ? "run.dueAgain" : "run.due"),
      run.dueTime !== run.fireTime && when(run.dueTime)],
    [t("run.start"), when(run.startTime)],
    [t("run.end"), when(run.endTime)],
    [t("run.lateness"), length(lateness(run))],
    [t("run.elapsed"), run.startTime && html`<${Elapsed} run=${run} />`],
    [t("run.trigger"), html`${triggerOf(run)} ${run.triggeredBy &&
      html`<span class="of"><${Person} name=${run.triggeredBy} /></span>`}`],
    [t("word.executor"), run.executor && html`<${ExecutorLink} name=${run.executor} />`],
    [t("run.attempt"), run.attempt],
    [t("run.next"), !run.endTime && when(run.nextAttemptTime)],
    [t("run.killReason"), run.killReason &&
      t(`kill.${run.killReason.replace("KILL_REASON_", "")}`)],
    [t("run.stateMessage"), run.stateMessage && html`<${Told} text=${run.stateMessage} />`],
    [t("run.shard"), run.parentRun && `${run.shardIndex ?? 0} / ${run.shardTotal ?? 0}`],
    [t("run.parent"), other(run.parentRun)],
    [t("run.rerunOf"), other(run.rerunOf)],
    [t("run.causedBy"), other(run.causedBy)],
    [t("word.labels"), Object.keys(run.labels ?? {}).length > 0 &&
      html`<${Labels} labels=${run.labels} />`],
    [t("job.revision"), run.jobRevision],
    [t("run.trace"), trace &&
      html`<span class="row tight"><span class="mono">${trace}</span><${Copy} text=${trace} />
        </span>`],
    [t("word.app"), appOf(run.name ?? "")],
    [t("word.run"), html`<span class="mono">${idOf(run.name)}</span>`],
  ];
}
