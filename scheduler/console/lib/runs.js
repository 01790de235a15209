// States of runs: what they mean to who looks.
import { told } from "./told.js";

/** @typedef {"run" | "wait" | "ok" | "bad" | "late" | "lost" | "off" | "skip"} Tone */

/** @type {Record<string, Tone>} */
const TONES = {
  SCHEDULED: "wait",
  QUEUED: "wait",
  DISPATCHED: "run",
  RUNNING: "run",
  CANCELING: "run",
  RETRY_WAIT: "late",
  SUCCEEDED: "ok",
  FAILED: "bad",
  TIMED_OUT: "late",
  LOST: "lost",
  CANCELED: "off",
  SKIPPED: "skip",
};

/** All states, open ones first. */
export const STATES = Object.keys(TONES);
/** Of a run that has not ended. */
export const OPEN = ["QUEUED", "DISPATCHED", "RUNNING", "CANCELING", "RETRY_WAIT"];
/** With an executor. */
export const RUNNING = ["DISPATCHED", "RUNNING", "CANCELING"];
/** Ends that somebody must look at. */
export const FAILED = ["FAILED", "TIMED_OUT", "LOST"];
/** How a run is shown that was skipped since nobody served its fire time. */
const MISSED = "MISSED";
/** States among which "failed or missed" is found: see `troubles`. */
export const TROUBLED = [...FAILED, "SKIPPED"];

/** The state without the contract's prefix. @param {string | undefined} text */
export const stateOf = (text) => (text ?? "").replace("RUN_STATE_", "");
/** @param {string} state of a run, or as it is shown */
export const toneOf = (state) => (state === MISSED ? "late" : TONES[state] ?? "off");
/** @param {string} state */
export const isOpen = (state) => OPEN.includes(state) || state === "SCHEDULED";

/** By so much two nodes' clocks may differ, in milliseconds. */
const CLOCKS_MS = 1000;

/**
 * Whether the run waited again after its first start, for a retry or because an executor stopped:
 * its due time is then that of the last wait.
 * @param {pb.Run} run
 */
export const waitedAgain = (run) =>
  (run.attempt ?? 1) > 1 || (run.attempts?.length ?? 0) > 1 ||
  Date.parse(run.dueTime ?? "") - Date.parse(run.startTime ?? "") > CLOCKS_MS;

/**
 * How many missed fire times a run stands for: 0 for one that its overlap policy or a pause
 * skipped, which is a decision.
 * @param {pb.Run} run
 */
export function missedTimes(run) {
  if (stateOf(run.state) !== "SKIPPED") return 0;
  // A row that was planned before it was missed has no count; only its message tells.
  return run.missedCount || (/ not served in time/.test(run.stateMessage ?? "") ? 1 : 0);
}

/**
 * The state as it is shown: to skip a run is a decision, to miss one is not.
 * @param {pb.Run} run
 */
export const shownState = (run) => (missedTimes(run) ? MISSED : stateOf(run.state));

/** Whether a run stands for fire times up to another instant. @param {pb.Run} run */
export const hasGap = (run) =>
  missedTimes(run) > 1 && Boolean(run.missedUntilTime) && run.missedUntilTime !== run.fireTime;

/** How much a run adds to "failed or missed". @param {pb.Run} run */
export const troubles = (run) => (FAILED.includes(stateOf(run.state)) ? 1 : missedTimes(run));

/**
 * Between the planned time and the first start.
 * @param {pb.Run} run
 * @returns {number} milliseconds; NaN for a run that has not started, and where the due time is not
 *   the first
 */
export function lateness(run) {
  if (!run.startTime || !run.dueTime || waitedAgain(run)) return NaN;
  return Math.max(0, Date.parse(run.startTime) - Date.parse(run.dueTime));
}

/**
 * From the first start to the end, or till now.
 * @param {pb.Run} run
 * @param {number} now
 */
export function elapsed(run, now) {
  if (!run.startTime) return NaN;
  return Math.max(0, (run.endTime ? Date.parse(run.endTime) : now) - Date.parse(run.startTime));
}

/** Why a run stands as it does, in one line. @param {pb.Run} run */
export function reason(run) {
  if (run.failure) {
    const { code = "", message = "" } = run.failure;
    return message ? `${code}: ${told(message)}` : code;
  }
  return run.stateMessage || run.progressMessage || "";
}
