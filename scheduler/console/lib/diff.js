// What is different between two revisions of a job.
import { textOf } from "./payload.js";

/** What is no setting of a job, or says nothing of a change. */
const LEFT_OUT = new Set(["name", "etag", "revision", "createTime", "updateTime", "nextFireTime",
  "nextDueTime", "lastRun", "problem", "updateBy", "state", "pauseUntilTime", "pauseReason"]);

/**
 * The settings of a job as paths and values.
 * @param {pb.Job} job
 * @returns {Map<string, string>}
 */
export function settings(job) {
  /** @type {Map<string, string>} */
  const all = new Map();
  /** @param {string} path @param {any} value */
  const add = (path, value) => {
    if (Array.isArray(value)) value.forEach((one, i) => add(`${path}[${i}]`, one));
    else if (typeof value === "object" && value !== null) {
      for (const [key, one] of Object.entries(value)) add(path ? `${path}.${key}` : key, one);
    } else all.set(path, String(value));
  };
  for (const [key, value] of Object.entries(job)) {
    if (LEFT_OUT.has(key)) continue;
    if (key === "params") all.set("params", textOf(value) ?? "");
    else add(key, value);
  }
  return all;
}

/**
 * @param {pb.Job} before
 * @param {pb.Job} after
 * @returns {{ path: string, before?: string, after?: string }[]}
 */
export function changes(before, after) {
  const [old, now] = [settings(before), settings(after)];
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort();
  return paths
    .filter((path) => old.get(path) !== now.get(path))
    .map((path) => ({ path, before: old.get(path), after: now.get(path) }));
}
