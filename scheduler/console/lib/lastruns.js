// The last runs of jobs, for the small bars in lists. Asked for a few at a time.
import { useEffect } from "./dom.js";
import { appOf, oneOf, parentOf } from "./names.js";
import { call } from "./rpc.js";
import { isOpen, stateOf } from "./runs.js";
import { store, useStore } from "./store.js";

export const SHOWN = 14;
const AT_ONCE = 4;
const FRESH_MS = 60_000;
const KEPT_MAX = 6000;
/** Answers that come within this time are told together. */
const TOLD_MS = 100;

/** @typedef {{ runs: pb.Run[], at: number }} Last newest first */

/**
 * One store for each job, so that an answer draws that job's bars alone.
 * @type {Map<string, import("./store.js").Store<Last | undefined>>}
 */
const known = new Map();
/** @type {string[]} */
let queue = [];
let asking = 0;
/** Told of what is known of any job, for lists that are sifted by it. */
const any = store(0);
const none = store(0);
let telling = 0;

function tell() {
  telling ||= window.setTimeout(() => {
    telling = 0;
    any.set(any.get() + 1);
  }, TOLD_MS);
}

/** The last runs of a job, as far as they are known. @param {string} job */
export function lastOf(job) {
  const had = known.get(job);
  if (had) return had;
  const made = store(/** @type {Last | undefined} */ (undefined));
  known.set(job, made);
  if (known.size > KEPT_MAX) {
    const [[oldest, gone]] = known;
    known.delete(oldest);
    gone.set(undefined);
  }
  return made;
}

/** @param {string} job */
async function ask(job) {
  asking += 1;
  try {
    const body = { parent: parentOf(appOf(job)), filter: oneOf("job", [job]), pageSize: SHOWN };
    /** @type {pb.ListRunsResponse} */
    const page = await call("RunService/ListRuns", body);
    lastOf(job).set({ runs: page.runs ?? [], at: Date.now() });
  } catch {
    // Shown as not known; asked for again with the next look.
  }
  asking -= 1;
  tell();
  work();
}

function work() {
  while (asking < AT_ONCE && queue.length > 0) ask(/** @type {string} */ (queue.shift()));
}

/**
 * Asks for the last runs of these jobs that are not known yet.
 * @param {string[]} jobs
 * @param {boolean} sifted whether the caller is drawn anew with each answer
 */
export function useLastRuns(jobs, sifted) {
  useEffect(() => {
    const old = Date.now() - FRESH_MS;
    queue = jobs.filter((job) => (lastOf(job).get()?.at ?? 0) < old);
    work();
    return () => {
      queue = [];
    };
  }, [jobs.join()]);
  useStore(sifted ? any : none);
}

/** Takes up a change of a run. @param {pb.Run} run */
export function noteRun(run) {
  const of = known.get(run.job ?? "");
  const last = of?.get();
  if (!of || !last || run.parentRun) return;
  const at = last.runs.findIndex((other) => other.name === run.name);
  const runs = at < 0 ? [run, ...last.runs].slice(0, SHOWN) : last.runs.with(at, run);
  of.set({ ...last, runs });
  tell();
}

/**
 * How a job's last ended run ended: none of both for a job that never ran.
 * @param {Last | undefined} last
 * @returns {string} a state, "NEVER", or "" while it is not known
 */
export function lastResult(last) {
  if (!last) return "";
  const ended = last.runs.find((run) => !isOpen(stateOf(run.state)));
  return ended ? stateOf(ended.state) : "NEVER";
}
