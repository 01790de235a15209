// The settings of a job beyond what, when and with what: each with its place in the contract.

/**
 * @typedef {object} Setting
 * @property {string[]} path in a Job of the contract
 * @property {string} label key of its text, with `.hint` of what it does
 * @property {"choice" | "length" | "number" | "text" | "words" | "labels" | "tick"} kind
 * @property {string | number} [usual] what the scheduler takes where it is left out; where that is
 *   no value of the field, the text `.usual` says it
 * @property {string[]} [options] of a choice, without the contract's prefix
 * @property {string} [enum] that prefix
 */

/**
 * @param {string} name
 * @param {string} [usual] a duration of the contract
 * @param {string} [path]
 * @returns {Setting}
 */
const length = (name, usual, path = name) =>
  ({ path: path.split("."), label: name, kind: "length", usual });
/** @param {string} name @param {number} [usual] @param {string} [path] @returns {Setting} */
const number = (name, usual, path = name) =>
  ({ path: path.split("."), label: name, kind: "number", usual });
/**
 * The first option is the usual one.
 * @param {string} name @param {string} prefix @param {string[]} options @param {string} [path]
 * @returns {Setting}
 */
const choice = (name, prefix, options, path = name) => ({ path: path.split("."), label: name,
  kind: "choice", usual: options[0], options, enum: `${prefix}_` });

/** @type {{ id: string, fields: Setting[] }[]} */
export const SECTIONS = [
  {
    id: "retries",
    fields: [
      number("maxAttempts", 1, "retry.maxAttempts"),
      length("initialBackoff", "1s", "retry.initialBackoff"),
      number("multiplier", 2, "retry.multiplier"),
      length("maxBackoff", "300s", "retry.maxBackoff"),
      number("jitter", 0.2, "retry.jitter"),
      { path: ["retry", "nonRetryableCodes"], label: "nonRetryableCodes", kind: "words" },
      number("maxLost", 3, "retry.maxLost"),
    ],
  },
  {
    id: "limits",
    fields: [
      length("timeout"),
      length("killGrace", "10s"),
      length("queueTimeout"),
      choice("overlap", "OVERLAP_POLICY", ["SKIP", "QUEUE", "ALLOW", "REPLACE"]),
      number("maxConcurrency"),
      number("maxQueued", 100),
      number("priority", 0),
    ],
  },
  {
    id: "misfires",
    fields: [
      choice("misfire", "MISFIRE_POLICY", ["FIRE_ONCE", "SKIP", "FIRE_ALL"]),
      length("misfireThreshold", "5s"),
      number("misfireMax", 100),
      length("misfireWindow", "86400s"),
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
      number("busyThreshold", 1, "placement.busyThreshold"),
      { path: ["placement", "requiredLabels"], label: "requiredLabels", kind: "labels" },
      number("shardTotal", undefined, "placement.shardTotal"),
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
