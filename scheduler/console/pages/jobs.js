// All jobs: what, whether, when next, how it went.
import { html, useEffect, useState } from "../lib/dom.js";
import { useEvery } from "../lib/every.js";
import { t } from "../lib/i18n.js";
import { lastOf, lastResult, noteRun, useLastRuns } from "../lib/lastruns.js";
import { useList } from "../lib/list.js";
import { allOf, appOf, idOf, parentOf, quoted, requestId } from "../lib/names.js";
import { href, setQuery, useRoute } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { FAILED } from "../lib/runs.js";
import { inWords, zoneOf } from "../lib/schedules.js";
import { can } from "../lib/session.js";
import { watchRuns } from "../lib/stream.js";
import { told } from "../lib/told.js";
import { Button, ButtonLink, Empty, PageHead } from "../parts/basics.js";
import { say, sayFault } from "../parts/dialog.js";
import { ClearFilters, Pick, PickApp, Search } from "../parts/filters.js";
import { JobSpark } from "../parts/spark.js";
import { JobLink, Life, jobHref, runHref } from "../parts/state.js";
import { Switch } from "../parts/switch.js";
import { Table } from "../parts/table.js";
import { When, ZoneNote } from "../parts/when.js";
import { BulkBar } from "./jobs/bulkbar.js";

const FILTERS = ["q", "app", "state", "handler", "owner", "label", "result"];
const REFRESH_MS = 15_000;
/** A next fire time that has passed is asked for anew so often. */
const PASSED_MS = 3000;
const PAGE = 50;

/** @param {pb.Job} job */
const hasPassed = (job) => job.nextFireTime && Date.parse(job.nextFireTime) < Date.now();

/** The filter of the address in the contract's words. @param {URLSearchParams} query */
function filterOf(query) {
  /** @param {string} name */
  const has = (name) => query.get(name) ?? "";
  const [key, ...value] = has("label").split("=");
  return allOf(
    has("q") && `name : ${quoted(has("q"))}`,
    has("state") && `state = ${quoted(has("state"))}`,
    has("handler") && `handler : ${quoted(has("handler"))}`,
    has("owner") && `owner : ${quoted(has("owner"))}`,
    key && `labels.${key} : ${quoted(value.join("=") || "*")}`,
  );
}

/** @type {Record<string, (result: string) => boolean>} */
const RESULTS = {
  failed: (result) => FAILED.includes(result),
  succeeded: (result) => result === "SUCCEEDED",
  never: (result) => result === "NEVER",
};

export function Jobs() {
  const { query } = useRoute();
  const parent = parentOf(query.get("app"));
  const body = { parent, filter: filterOf(query), orderBy: query.get("sort") ?? "" };
  const count = Math.min(5000, Math.max(PAGE, Number(query.get("n")) || 0));
  const list = useList({ method: "JobService/ListJobs", body, field: "jobs", count,
    one: "JobService/GetJob" });
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const result = query.get("result") ?? "";
  const sifted = Object.hasOwn(RESULTS, result);
  useLastRuns(list.rows.map((/** @type {pb.Job} */ job) => job.name ?? ""), sifted);
  /** @param {pb.Job} job */
  const isWanted = (job) => RESULTS[result](lastResult(lastOf(job.name ?? "").get()));
  const rows = sifted ? list.rows.filter(isWanted) : list.rows;

  // How far one has read is part of the address, too.
  useEffect(() => {
    if (list.rows.length > PAGE) setQuery({ n: String(list.rows.length) });
  }, [list.rows.length]);
  useEffect(() => setChosen(new Set()), [JSON.stringify(body)]);
  useEffect(() => watchRuns({ parent }, {
    take: (type, run) => type === "CHANGED" && run && noteRun(run),
  }), [parent]);
  useEvery(REFRESH_MS, () => list.refresh());
  useEvery(PASSED_MS, () => list.rows.some(hasPassed) && list.refresh());

  const columns = columnsOf(list.patch);
  const filtered = FILTERS.some((name) => query.get(name));
  return html`<${PageHead} title=${t("page.jobs")}>
      ${can("EDITOR") && html`<${ButtonLink} kind="main" icon="plus" href=${href(["jobs", "new"])}>
        ${t("job.new")}<//>`}
    <//>
    <div class="filters">
      <${Search} label=${t("jobs.search")} />
      <${PickApp} />
      <${Pick} name="state" label=${t("word.state")}
        options=${["ACTIVE", "PAUSED", "EXPIRED"].map((word) => [word, t(`life.${word}`)])} />
      <${Pick} name="result" label=${t("jobs.result")}
        options=${Object.keys(RESULTS).map((word) => [word, t(`result.${word}`)])} />
      <${Search} name="handler" label=${t("word.handler")} main=${false} />
      <${Search} name="owner" label=${t("word.owner")} main=${false} />
      <${Search} name="label" label=${t("filter.label")} main=${false} />
      <${Pick} name="sort" label=${t("sort.label")} any=${t("sort.name")}
        options=${[["next_fire_time", t("sort.next")], ["create_time desc", t("sort.created")]]} />
      <${ClearFilters} names=${FILTERS} /><${ZoneNote} />
    </div>
    <${Table} label=${t("page.jobs")} list=${{ ...list, rows }} columns=${columns}
      hrefOf=${(/** @type {pb.Job} */ job) => jobHref(job.name ?? "")}
      chosen=${chosen} choose=${can("OPERATOR") ? setChosen : undefined}
      empty=${filtered
        ? html`<${Empty} title=${t("jobs.noMatch")}><${ClearFilters} names=${FILTERS} /><//>`
        : html`<${Empty} title=${t("jobs.none")} hint=${t("jobs.noneHint")}>
            ${can("EDITOR") && html`<${ButtonLink} kind="main" icon="plus"
              href=${href(["jobs", "new"])}>
              ${t("job.new")}<//>`}<//>`} />
    <${BulkBar} chosen=${chosen} choose=${setChosen} list=${list} />`;
}

/**
 * @param {(job: pb.Job) => unknown} patch
 * @returns {import("../parts/table.js").Column<pb.Job>[]}
 */
function columnsOf(patch) {
  return [
    { id: "job", label: t("word.job"), class: "first", cell: (job) => html`
      <${JobLink} name=${job.name} />
        ${job.displayName && html`<span class="under">${job.displayName}</span>`}
      ${job.problem && html`<span class="under bad">${told(job.problem)}</span>`}` },
    { id: "state", label: t("word.state"), cell: (job) =>
      html`<${JobSwitch} job=${job} patch=${patch} />` },
    { id: "schedule", label: t("job.schedule"), cell: (job) =>
      html`<${ScheduleWords} job=${job} />` },
    { id: "next", label: t("job.next"), cell: (job) => html`
      <${When} at=${job.nextFireTime} zone=${zoneOf(job)} bare rel next />` },
    { id: "last", label: t("job.last"), cell: (job) =>
      html`<${JobSpark} job=${job.name ?? ""} />` },
    { id: "handler", label: t("word.handler"), class: "wide-only", cell: (job) => html`
      <span class="mono">${job.handler}</span>` },
    { id: "owner", label: t("word.owner"), class: "wide-only", cell: (job) => job.owner },
    { id: "do", label: "", class: "do", cell: (job) =>
      html`<${TriggerNow} name=${job.name ?? ""} />` },
  ];
}

/** @param {{ job: pb.Job }} props */
function ScheduleWords({ job }) {
  const [first, ...others] = job.schedules ?? [];
  if (!first) return html`<span class="none">${t("schedule.byHand")}</span>`;
  return html`<span class=${first.cron ? "mono" : ""}>${inWords(first)}</span>
    ${others.length > 0 && html` <span class="of">+${others.length}</span>`}
    ${first.cron && html`<span class="under">${first.timeZone || "UTC"}</span>`}`;
}

/**
 * Pauses and resumes where it stands.
 * @param {{ job: pb.Job, patch: (job: pb.Job) => unknown }} props
 */
function JobSwitch({ job, patch }) {
  const name = job.name ?? "";
  if (job.state === "STATE_EXPIRED" || !can("OPERATOR", appOf(name))) {
    return html`<${Life} state=${job.state} />`;
  }
  const active = job.state !== "STATE_PAUSED";
  const flip = async () => {
    try {
      patch(await call(`JobService/${active ? "PauseJob" : "ResumeJob"}`, { name }));
    } catch (error) {
      sayFault(error);
    }
  };
  return html`<${Switch} on=${active} flip=${flip} label=${t("job.switch", { name: idOf(name) })}
    text=${t(active ? "life.ACTIVE" : "life.PAUSED")} />`;
}

/** @param {{ name: string }} props */
function TriggerNow({ name }) {
  const [busy, setBusy] = useState(false);
  if (!can("OPERATOR", appOf(name))) return null;
  const trigger = async () => {
    setBusy(true);
    try {
      /** @type {pb.Run} */
      const run = await call("JobService/TriggerJob", { name, requestId: requestId() });
      say(t("job.triggered", { name: idOf(name) }), { href: runHref(run.name ?? "") });
    } catch (error) {
      sayFault(error);
    }
    setBusy(false);
  };
  return html`<${Button} kind="quiet" icon="play" busy=${busy} onClick=${trigger}
    label=${t("job.triggerNow", { name: idOf(name) })} />`;
}
