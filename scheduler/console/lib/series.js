// Runs as numbers over time, for the plots.
import { FAILED, lateness, missedTimes, stateOf } from "./runs.js";

const STEP_MS = 60_000;
const SHORTEST_MS = 10 * STEP_MS;

/**
 * Per minute of fire time: all fires, those missed or made badly, those missed, those made badly.
 * @param {Iterable<pb.Run>} runs
 * @param {number} from
 * @param {number} to
 */
export function fires(runs, from, to) {
  const first = Math.floor(from / STEP_MS);
  const count = Math.max(1, Math.floor(to / STEP_MS) - first + 1);
  const all = new Array(count).fill(0);
  const missed = new Array(count).fill(0);
  const failed = new Array(count).fill(0);
  for (const run of runs) {
    const at = Math.floor(Date.parse(run.fireTime ?? run.createTime ?? "") / STEP_MS) - first;
    if (!(at >= 0 && at < count)) continue;
    const times = missedTimes(run);
    all[at] += Math.max(1, times);
    missed[at] += times;
    if (FAILED.includes(stateOf(run.state))) failed[at] += 1;
  }
  const times = all.map((_, i) => ((first + i) * STEP_MS) / 1000);
  const bad = failed.map((n, i) => n + missed[i]);
  return { times, all, bad, missed, failed };
}

/**
 * Per minute: the median and the worst lateness, in milliseconds.
 * @param {Iterable<pb.Run>} runs
 * @param {number} from
 * @param {number} to
 */
export function latenesses(runs, from, to) {
  const first = Math.floor(from / STEP_MS);
  const count = Math.max(1, Math.floor(to / STEP_MS) - first + 1);
  /** @type {number[][]} */
  const found = Array.from({ length: count }, () => []);
  for (const run of runs) {
    const late = lateness(run);
    const at = Math.floor(Date.parse(run.dueTime ?? "") / STEP_MS) - first;
    if (late >= 0 && at >= 0 && at < count) found[at].push(late);
  }
  found.forEach((all) => all.sort((a, b) => a - b));
  /** @param {(all: number[]) => number} of */
  const each = (of) => found.map((all) => (all.length ? of(all) : null));
  return {
    times: found.map((_, i) => ((first + i) * STEP_MS) / 1000),
    median: each((all) => all[Math.floor((all.length - 1) / 2)]),
    worst: each((all) => all[all.length - 1]),
  };
}

/**
 * Where a plot begins: with the first run that is known, but not so late that it shows next to
 * nothing.
 * @param {Iterable<pb.Run>} runs
 * @param {number} since
 */
export function begin(runs, since) {
  let first = Date.now() - SHORTEST_MS;
  for (const run of runs) first = Math.min(first, Date.parse(run.fireTime ?? run.createTime ?? ""));
  return Math.max(since, first);
}
