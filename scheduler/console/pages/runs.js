// All runs, newest first.
import { html, useEffect, useMemo, useRef } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { useAsk, useList } from "../lib/list.js";
import { parentOf } from "../lib/names.js";
import { go, href, setQuery, useRoute } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { GROUPS, SINCE, TRIGGERS, jobsNamed, runFilter, runKept,
  runOfId } from "../lib/runfilter.js";
import { STATES, hasGap, isOpen, lateness, reason, stateOf } from "../lib/runs.js";
import { watchRuns } from "../lib/stream.js";
import { length } from "../lib/time.js";
import { ButtonLink, Empty, Fault, PageHead } from "../parts/basics.js";
import { ClearFilters, Pick, PickApp, Search, useApps } from "../parts/filters.js";
import { Told } from "../parts/person.js";
import { ExecutorLink, JobLink, RunLink, RunState, runHref } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { Elapsed, When, ZoneNote } from "../parts/when.js";

const FILTERS = ["q", "app", "job", "state", "since", "trigger", "executor", "label"];
const PAGE = 50;

export function Runs() {
  const { query } = useRoute();
  const apps = useApps();
  const text = query.get("job") || query.get("q") || "";
  const app = query.get("app");
  // What was typed is the id of a run, or (a part of) the name of jobs.
  const named = useAsk(async () => {
    const run = await runOfId(text, app ? [app] : apps);
    return run ? { run, jobs: [] } : { run, jobs: text ? await jobsNamed(text, app) : [] };
  }, [text, app, apps.join()]);
  useEffect(() => {
    const run = named.value?.run;
    if (!run) return;
    setQuery({ q: "" });
    go(runHref(run));
  }, [named.value?.run]);
  if (named.error) return html`<${Fault} error=${named.error} again=${named.again} />`;
  const nothing = text !== "" && named.value?.jobs.length === 0 && !named.value.run;
  const filtered = FILTERS.some((name) => query.get(name));
  return html`<${PageHead} title=${t("page.runs")} />
    <div class="filters">
      <${Search} label=${t("runs.search")} />
      <${PickApp} />
      <${Pick} name="state" label=${t("word.state")} options=${[
        ...Object.keys(GROUPS).map((group) => [group, t(`group.${group}`)]),
        ...STATES.map((state) => [state, t(`state.${state}`)])]} />
      <${Pick} name="since" label=${t("runs.since")} any=${t("runs.always")}
        options=${Object.keys(SINCE).map((span) => [span, t(`since.${span}`)])} />
      <${Pick} name="trigger" label=${t("run.trigger")}
        options=${TRIGGERS.map((trigger) => [trigger, t(`trigger.${trigger}`)])} />
      <${Search} name="executor" label=${t("word.executor")} main=${false} />
      <${Search} name="label" label=${t("filter.label")} main=${false} />
      <${ClearFilters} names=${FILTERS} /><${ZoneNote} />
    </div>
    ${nothing
      ? html`<${Empty} title=${t("runs.noJob", { text })}><${ClearFilters} names=${FILTERS} /><//>`
      : named.value && !named.value.run &&
        html`<${RunsTable} jobs=${named.value.jobs} query=${query}
          label=${t("page.runs")} empty=${filtered
            ? html`<${Empty} title=${t("runs.noMatch")}><${ClearFilters} names=${FILTERS} /><//>`
            : html`<${Empty} title=${t("runs.none")} hint=${t("runs.noneHint")}>
                <${ButtonLink} href=${href("/jobs")}>${t("page.jobs")}<//><//>`} />`}`;
}

/**
 * Runs of these jobs (of all when there are none), kept up to date where they stand.
 * @param {{
 *   jobs: string[], query: URLSearchParams, label: string, empty: any, one?: boolean,
 * }} props
 *   `one`: of one job, which needs no naming
 */
export function RunsTable({ jobs, query, label, empty, one }) {
  const parent = parentOf(query.get("app"));
  const asked = `${jobs.join()} ${query}`.replace(/&?n=\d+/, "");
  const filter = useMemo(() => runFilter(query, jobs), [asked]);
  const count = Math.min(5000, Math.max(PAGE, Number(query.get("n")) || 0));
  const keep = runKept(query);
  const list = useList({ method: "RunService/ListRuns", body: { parent, filter }, field: "runs",
    count, keep });
  useEffect(() => {
    if (list.rows.length > PAGE) setQuery({ n: String(list.rows.length) });
  }, [list.rows.length]);
  useLive(parent, filter, keep, list);
  const columns = useMemo(() => columnsOf(one ?? false), [one, t("word.job")]);
  return html`<${Table} label=${label} list=${list} columns=${columns} empty=${empty}
    hrefOf=${(/** @type {pb.Run} */ run) => runHref(run.name ?? "")} />`;
}

/**
 * @param {string} parent
 * @param {string} filter
 * @param {((run: pb.Run) => boolean) | undefined} keep
 * @param {any} list
 */
function useLive(parent, filter, keep, list) {
  const latest = useRef(list);
  latest.current = list;
  useEffect(() => {
    let reading = true;
    return watchRuns({ parent, filter }, {
      take(type, run) {
        if (type === "BOOKMARK") reading = false;
        if (!run) return;
        if (type === "DELETED") leave(run.name ?? "");
        else if (!latest.current.patch(run) && type === "CHANGED" && !reading &&
          (keep?.(run) ?? true)) latest.current.add(run);
      },
    });
  }, [parent, filter, Boolean(keep)]);
  /** A run that is none of the list's any more is shown as it is now. @param {string} name */
  async function leave(name) {
    if (!latest.current.rows.some((/** @type {pb.Run} */ run) => run.name === name)) return;
    try {
      latest.current.patch(await call("RunService/GetRun", { name, view: "RUN_VIEW_BASIC" }));
    } catch {
      latest.current.remove([name]);
    }
  }
}

/** @param {boolean} one @returns {import("../parts/table.js").Column<pb.Run>[]} */
function columnsOf(one) {
  /** @type {import("../parts/table.js").Column<pb.Run>[]} */
  const columns = [
    { id: "state", label: t("word.state"), cell: (run) =>
      html`<${RunState} run=${run} />` },
    { id: "job", label: t("word.job"), class: "first", cell: (run) =>
      html`<${JobLink} name=${run.job} />` },
    { id: "run", label: t("word.run"), cell: (run) => html`<${RunLink} name=${run.name} />` },
    { id: "fire", label: t("run.fire"), cell: (run) => html`<${When} at=${run.fireTime} bare />
      ${hasGap(run) && html`<span class="under">${t("run.to")} <${When} at=${run.missedUntilTime}
        bare /></span>`}` },
    { id: "late", label: t("run.lateness"), class: "num wide-only", cell: (run) =>
      length(lateness(run)) },
    { id: "elapsed", label: t("run.elapsed"), class: "num", cell: (run) =>
      html`<${Elapsed} run=${run} />` },
    { id: "attempt", label: t("run.attempt"), class: "num wide-only", cell: (run) =>
      isOpen(stateOf(run.state)) || (run.attempt ?? 0) > 1 ? run.attempt : "" },
    { id: "trigger", label: t("run.trigger"), class: "wide-only", cell: (run) => triggerOf(run) },
    { id: "executor", label: t("word.executor"), cell: (run) =>
      html`<${ExecutorLink} name=${run.executor} />` },
    { id: "why", label: t("run.why"), class: "why", cell: (run) => html`
      <${Told} text=${reason(run)} />` },
  ];
  return one ? columns.filter((column) => column.id !== "job") : columns;
}

/** @param {pb.Run} run */
export const triggerOf = (run) => t(`trigger.${(run.trigger ?? "").replace("TRIGGER_", "")}`);
