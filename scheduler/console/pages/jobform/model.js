// A job under way of being written: reading and writing by path, and what is sent of it.

/** @param {any} value @param {string[]} path @returns {any} */
export const read = (value, path) => path.reduce((at, part) => at?.[part], value);

/**
 * A copy with another value at a path; undefined takes the place away, and what is left empty.
 * @param {any} value
 * @param {string[]} path
 * @param {any} next
 * @returns {any}
 */
export function write(value, [first, ...rest], next) {
  const inner = rest.length ? write(value?.[first] ?? {}, rest, next) : next;
  const copy = { ...value };
  const empty = inner === undefined || (rest.length > 0 && Object.keys(inner).length === 0);
  if (empty) delete copy[first];
  else copy[first] = inner;
  return copy;
}

/** Fields that a form starts without: the server's own. */
const OWN = ["name", "etag", "revision", "createTime", "updateTime", "nextFireTime", "lastRun",
  "nextDueTime", "problem", "updateBy", "state", "pauseUntilTime", "pauseReason"];

/** What can be set of a job. @param {pb.Job} job @returns {pb.Job} */
export function settable(job) {
  const copy = /** @type {any} */ ({ ...job });
  for (const name of OWN) delete copy[name];
  return copy;
}

/**
 * The path of a violation in the words of the form: "job.retry.max_attempts" is
 * "retry.maxAttempts".
 * @param {string} field
 */
export const pathOf = (field) =>
  field.replace(/^job\./, "").replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
