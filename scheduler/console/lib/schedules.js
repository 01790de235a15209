// Schedules in a few words.
import { t } from "./i18n.js";
import { length, seconds } from "./time.js";

/** @typedef {"cron" | "interval" | "delay" | "at" | "none"} Kind */

/** @param {pb.Schedule} schedule @returns {Kind} */
export function kindOf(schedule) {
  for (const kind of /** @type {Kind[]} */ (["cron", "interval", "delay", "at"])) {
    if (schedule[/** @type {"cron"} */ (kind)]) return kind;
  }
  return "none";
}

/** @param {pb.Schedule} schedule */
export function inWords(schedule) {
  const span = (/** @type {string | undefined} */ text) => length(seconds(text) * 1000);
  switch (kindOf(schedule)) {
    case "cron":
      return schedule.cron ?? "";
    case "interval":
      return t("schedule.every", { text: span(schedule.interval) });
    case "delay":
      return t("schedule.after", { text: span(schedule.delay) });
    case "at":
      return t("schedule.once");
    default:
      return t("schedule.byHand");
  }
}

/**
 * A saved job's schedule as PreviewSchedule must see it: a fixed rate without a start counts from
 * the job's creation, which a bare schedule does not tell.
 * @param {pb.Schedule} schedule
 * @param {string | undefined} createTime
 * @returns {pb.Schedule}
 */
export function anchored(schedule, createTime) {
  const rated = schedule.interval || schedule.cron?.trimStart().startsWith("@every");
  return rated && !schedule.startTime && createTime
    ? { ...schedule, startTime: createTime } : schedule;
}

/** The zone of a job: its first schedule's. @param {pb.Job | undefined} job */
export function zoneOf(job) {
  const named = job?.schedules?.find((schedule) => schedule.timeZone)?.timeZone;
  return named ?? "UTC";
}

