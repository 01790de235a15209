// The settings of a job beyond what, when and with what: each with its place in the contract.

/**
 * @typedef {object} Setting
 * @property {string[]} path in a Job of the contract
 * @property {string} label key of its text, with `.hint` of what it does
 * @property {"choice" | "length" | "number" | "text" | "words" | "labels" | "tick"} kind
 * @property {string[]} [options] of a choice, without the contract's prefix
 * @property {string} [enum] that prefix
 */

/** @param {string} name @param {string} [path] @returns {Setting} */
const length = (name, path = name) => ({ path: path.split("."), label: name, kind: "length" });
/** @param {string} name @param {string} [path] @returns {Setting} */
const number = (name, path = name) => ({ path: path.split("."), label: name, kind: "number" });
/**
 * @param {string} name @param {string} prefix @param {string[]} options @param {string} [path]
 * @returns {Setting}
 */
const choice = (name, prefix, options, path = name) =>
  ({ path: path.split("."), label: name, kind: "choice", options, enum: `${prefix}_` });

/** @type {{ id: string, fields: Setting[] }[]} */
export const SECTIONS = [
  {
    id: "retries",
    fields: [
      number("maxAttempts", "retry.maxAttempts"),
      length("initialBackoff", "retry.initialBackoff"),
      number("multiplier", "retry.multiplier"),
      length("maxBackoff", "retry.maxBackoff"),
      number("jitter", "retry.jitter"),
      { path: ["retry", "nonRetryableCodes"], label: "nonRetryableCodes", kind: "words" },
      number("maxLost", "retry.maxLost"),
    ],
  },
  {
    id: "limits",
    fields: [
      length("timeout"),
      length("killGrace"),
      length("queueTimeout"),
      choice("overlap", "OVERLAP_POLICY", ["SKIP", "QUEUE", "ALLOW", "REPLACE"]),
      number("maxConcurrency"),
      number("maxQueued"),
      number("priority"),
    ],
  },
  {
    id: "misfires",
    fields: [
      choice("misfire", "MISFIRE_POLICY", ["FIRE_ONCE", "SKIP", "FIRE_ALL"]),
      length("misfireThreshold"),
      number("misfireMax"),
      length("misfireWindow"),
    ],
  },
  {
    id: "placing",
    fields: [
      choice("route", "ROUTE_STRATEGY",
        ["ROUND_ROBIN", "RANDOM", "FIRST", "LAST", "CONSISTENT_HASH",
        "LEAST_FREQUENTLY_USED", "LEAST_RECENTLY_USED", "FAILOVER", "BUSYOVER", "LEAST_LOADED"],
      "placement.route"),
      { path: ["placement", "routeKey"], label: "routeKey", kind: "text" },
      number("busyThreshold", "placement.busyThreshold"),
      { path: ["placement", "requiredLabels"], label: "requiredLabels", kind: "labels" },
      number("shardTotal", "placement.shardTotal"),
      { path: ["placement", "broadcast"], label: "broadcast", kind: "tick" },
    ],
  },
  {
    id: "contact",
    fields: [
      choice("lostPolicy", "LOST_POLICY", ["RETRY", "FAIL"]),
      choice("disconnectPolicy", "DISCONNECT_POLICY", ["CONTINUE", "STOP"]),
      length("lostAfter"),
      length("runRetention"),
    ],
  },
];
