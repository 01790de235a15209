// The filter of the list of runs: from the address to the contract's words.
import { allOf, appOf, idOf, oneOf, parentOf, quoted } from "./names.js";
import { call } from "./rpc.js";
import { FAILED, OPEN, RUNNING, STATES, TROUBLED, troubles } from "./runs.js";

/** States that are asked for together. @type {Record<string, string[]>} */
export const GROUPS = {
  open: OPEN,
  running: RUNNING,
  waiting: ["QUEUED", "RETRY_WAIT"],
  failed: FAILED,
  troubled: TROUBLED,
};
/** @type {Record<string, number>} */
export const SINCE = { "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 };
export const TRIGGERS = ["SCHEDULE", "API", "RERUN", "MISFIRE", "CHAIN", "BACKFILL"];

const JOBS_MAX = 40;
const ULID = /^[0-9A-HJKMNP-TV-Z]{26}$/i;
const MINUTE_MS = 60_000;

/**
 * The run that a text names, if it is an id of one.
 * @param {string} text
 * @param {string[]} apps
 * @returns {Promise<string>} its name, or ""
 */
export async function runOfId(text, apps) {
  const id = idOf(text);
  if (!ULID.test(id)) return "";
  const named = text.startsWith("apps/") ? [appOf(text)] : text.includes("/") ?
    [text.split("/")[0]] : apps;
  for (const app of named) {
    const name = `apps/${app}/runs/${id.toUpperCase()}`;
    try {
      await call("RunService/GetRun", { name, view: "RUN_VIEW_BASIC" });
      return name;
    } catch {
      // Of another app, or gone.
    }
  }
  return "";
}

/**
 * Full names of the jobs that a text means: one by its whole name, or all whose name has it.
 * @param {string} text
 * @param {string | null} app
 * @returns {Promise<string[]>}
 */
export async function jobsNamed(text, app) {
  const [first, second] = text.split("/");
  if (second) return [`apps/${first}/jobs/${second}`];
  const filter = `name : ${quoted(text)}`;
  /** @type {pb.ListJobsResponse} */
  const page = await call("JobService/ListJobs",
    { parent: parentOf(app), filter, pageSize: JOBS_MAX });
  return (page.jobs ?? []).map((job) => job.name ?? "");
}

/**
 * What the contract's filter has no words for: skipped runs that were missed, among all skipped.
 * @param {URLSearchParams} query
 * @returns {((run: pb.Run) => boolean) | undefined}
 */
export const runKept = (query) =>
  (query.get("state") === "troubled" ? (run) => troubles(run) > 0 : undefined);

/**
 * @param {URLSearchParams} query
 * @param {string[]} jobs
 * @returns {string}
 */
export function runFilter(query, jobs) {
  const state = query.get("state") ?? "";
  const states = GROUPS[state] ?? (STATES.includes(state) ? [state] : []);
  const span = SINCE[query.get("since") ?? ""];
  // To the minute, so that the list is the same one for a while.
  const from = span && Math.floor((Date.now() - span) / MINUTE_MS) * MINUTE_MS;
  const [key, ...value] = (query.get("label") ?? "").split("=");
  const executor = query.get("executor");
  return allOf(
    oneOf("job", jobs),
    oneOf("state", states),
    oneOf("trigger", TRIGGERS.filter((trigger) => trigger === query.get("trigger"))),
    executor && `executor = ${quoted(executor)}`,
    from ? `create_time > "${new Date(from).toISOString()}"` : "",
    key && `labels.${key} : ${quoted(value.join("=") || "*")}`,
  );
}
