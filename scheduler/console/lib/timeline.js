// What happened to a run, in the order of time, and how long each part of it took.
import { waitedAgain } from "./runs.js";
import { instant } from "./time.js";

/**
 * @typedef {object} Happening
 * @property {number} at
 * @property {string} kind key of its text
 * @property {Record<string, string | number>} values
 * @property {string} [executor]
 * @property {string} [tone]
 * @property {pb.Failure} [failure]
 */

/**
 * @typedef {{
 *   from: number, to: number, kind: "spread" | "wait" | "sent" | "run", tone: string,
 * }} Span
 */

const OUTCOMES = { SUCCEEDED: "ok", FAILED: "bad", CANCELED: "off", TIMED_OUT: "late",
  LOST: "lost" };
/** @param {string | undefined} outcome */
const outcomeOf = (outcome) =>
  (outcome ?? "").replace("OUTCOME_", "").replace("UNSPECIFIED", "");
/** @param {string} outcome */
const toneOf = (outcome) => OUTCOMES[/** @type {keyof typeof OUTCOMES} */ (outcome)] ?? "run";

/** @param {pb.Run} run @returns {Happening[]} */
export function happenings(run) {
  /** @type {Happening[]} */
  const all = [];
  /** @param {string | undefined} text @param {string} kind @param {Partial<Happening>} [more] */
  const add = (text, kind, more = {}) => {
    const at = instant(text);
    if (!Number.isNaN(at)) all.push({ at, kind, values: {}, ...more });
  };
  add(run.createTime, "created", { values: { by: run.triggeredBy ?? "" } });
  add(run.fireTime, "fire");
  if (run.dueTime !== run.fireTime && !waitedAgain(run)) add(run.dueTime, "due");
  // A run that is split has an attempt that nobody was sent: its shards are.
  for (const attempt of (run.attempts ?? []).filter((one) => one.executor)) {
    const values = { n: attempt.number ?? 0 };
    const { executor } = attempt;
    add(attempt.dispatchTime, "sent", { values, executor });
    add(attempt.startTime ?? attempt.ackTime, "started", { values, executor });
    add(attempt.disconnectedSince, "outOfContact", { values, executor, tone: "late" });
    const outcome = outcomeOf(attempt.outcome);
    add(attempt.endTime, "ended", {
      values: { ...values, outcome },
      executor,
      tone: toneOf(outcome),
      failure: attempt.failure,
    });
  }
  if (!run.endTime) add(run.nextAttemptTime, "next");
  add(run.endTime, "over", { tone: "end" });
  return all.map((one, i) => ({ one, i })).sort((a, b) => a.one.at - b.one.at || a.i - b.i)
    .map(({ one }) => one);
}

/** Runs that are made for a fire time; others, of a fire time or not, begin when they are made. */
const BY_CLOCK = ["TRIGGER_SCHEDULE", "TRIGGER_MISFIRE"];

/** When a run began to wait. @param {pb.Run} run */
export function beginOf(run) {
  const fire = BY_CLOCK.includes(run.trigger ?? "") ? instant(run.fireTime) : NaN;
  return fire || instant(run.createTime);
}

/**
 * Each attempt as spans: waiting, on its way, running.
 * @param {pb.Run} run
 * @param {number} now
 * @returns {{ number: number, executor: string, spans: Span[] }[]}
 */
export function spans(run, now) {
  const end = instant(run.endTime) || now;
  let waitedSince = beginOf(run);
  const rows = [];
  for (const attempt of run.attempts ?? []) {
    const sent = instant(attempt.dispatchTime);
    const started = instant(attempt.startTime) || instant(attempt.ackTime);
    const ended = instant(attempt.endTime) || end;
    /** @type {Span[]} */
    const parts = [];
    if (sent > waitedSince) parts.push({ from: waitedSince, to: sent, kind: "wait", tone: "wait" });
    if (sent && (started || ended)) {
      parts.push({ from: sent, to: started || ended, kind: "sent", tone: "plain" });
    }
    if (started) parts.push({ from: started, to: ended, kind: "run",
      tone: toneOf(outcomeOf(attempt.outcome)) });
    rows.push({ number: attempt.number ?? 0, executor: attempt.executor ?? "", spans: parts });
    waitedSince = ended;
  }
  if (!run.endTime && waitedSince < now && (run.attempts ?? []).every((one) => one.endTime)) {
    const next = (run.attempt ?? 1) + (run.nextAttemptTime ? 1 : 0);
    rows.push({ number: next, executor: "",
      spans: [{ from: waitedSince, to: now, kind: /** @type {const} */ ("wait"), tone: "wait" }] });
  }
  return rows;
}
