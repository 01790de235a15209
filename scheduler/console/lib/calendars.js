// Calendars in words, and which jobs use them.
import { appOf, idOf } from "./names.js";
import { href } from "./router.js";
import { listAll } from "./rpc.js";
import { LOCAL_ZONE, dateOf, weekday } from "./time.js";

/** Jobs that are looked through for calendars that they use. */
const JOBS_MAX = 5000;
/** A Monday. */
const MONDAY_MS = Date.UTC(2024, 0, 1);
const DAY_MS = 86_400_000;

/**
 * @typedef {object} Uses
 * @property {Map<string, pb.Job[]>} of jobs by the calendar that they name
 * @property {boolean} more there are jobs that were not looked at
 */

/** Who uses which calendar, among the jobs that the viewer may see. @returns {Promise<Uses>} */
export async function askUses() {
  const list = await listAll("JobService/ListJobs", { parent: "apps/-" }, "jobs", JOBS_MAX);
  /** @type {Map<string, pb.Job[]>} */
  const of = new Map();
  for (const job of /** @type {pb.Job[]} */ (list.items)) {
    for (const name of new Set([...named(job, "includeCalendars"),
      ...named(job, "excludeCalendars")])) {
      const jobs = of.get(name);
      if (jobs) jobs.push(job);
      else of.set(name, [job]);
    }
  }
  return { of, more: list.more };
}

/**
 * The calendars that a job's schedules include, or exclude.
 * @param {pb.Job} job
 * @param {"includeCalendars" | "excludeCalendars"} how
 */
export const named = (job, how) => (job.schedules ?? []).flatMap((schedule) => schedule[how] ?? []);

/** The days of a week by their number, 1 for Monday. */
export const WEEKDAYS = [1, 2, 3, 4, 5, 6, 7];

/** A weekday in the viewer's language. @param {number} day 1 for Monday */
export const dayName = (day) => weekday(MONDAY_MS + (day - 1) * DAY_MS, "UTC");

/** The weekday of a date, such as 2026-12-25. @param {string} date */
export const dayOf = (date) => weekday(Date.parse(`${date}T00:00:00Z`), "UTC");

/** Today's date by the viewer's clock. */
export const today = () => dateOf(Date.now(), LOCAL_ZONE);

/** @param {string} name */
export const calendarHref = (name) => href(["calendars", appOf(name), idOf(name)]);
