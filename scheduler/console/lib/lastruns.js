// The last runs of jobs, for the small bars in lists. Asked for a few at a time.
import { useEffect } from "./dom.js";
import { appOf, oneOf, parentOf } from "./names.js";
import { call } from "./rpc.js";
import { isOpen, stateOf } from "./runs.js";
import { store, useStore } from "./store.js";

export const SHOWN = 14;
const AT_ONCE = 4;
const FRESH_MS = 60_000;
const KEPT_MAX = 5000;

/** @typedef {{ runs: pb.Run[], at: number }} Last newest first */

/** @type {Map<string, Last>} */
const known = new Map();
/** @type {string[]} */
let queue = [];
let asking = 0;
const drawn = store(0);
let drawing = 0;

function draw() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    drawn.set(drawn.get() + 1);
  });
}

/** @param {string} job */
async function ask(job) {
  asking += 1;
  try {
    const body = { parent: parentOf(appOf(job)), filter: oneOf("job", [job]), pageSize: SHOWN };
    /** @type {pb.ListRunsResponse} */
    const page = await call("RunService/ListRuns", body);
    known.set(job, { runs: page.runs ?? [], at: Date.now() });
    if (known.size > KEPT_MAX) known.delete(/** @type {string} */ (known.keys().next().value));
  } catch {
    // Shown as not known; asked for again with the next look.
  }
  asking -= 1;
  draw();
  work();
}

function work() {
  while (asking < AT_ONCE && queue.length > 0) ask(/** @type {string} */ (queue.shift()));
}

/** The last runs of these jobs; what is not known yet is asked for. @param {string[]} jobs */
export function useLastRuns(jobs) {
  useEffect(() => {
    const old = Date.now() - FRESH_MS;
    queue = jobs.filter((job) => (known.get(job)?.at ?? 0) < old);
    work();
    return () => {
      queue = [];
    };
  }, [jobs.join()]);
  useStore(drawn);
  return known;
}

/** Takes up a change of a run. @param {pb.Run} run */
export function noteRun(run) {
  const last = known.get(run.job ?? "");
  if (!last || run.parentRun) return;
  const at = last.runs.findIndex((other) => other.name === run.name);
  const runs = at < 0 ? [run, ...last.runs].slice(0, SHOWN) : last.runs.with(at, run);
  known.set(run.job ?? "", { ...last, runs });
  draw();
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
