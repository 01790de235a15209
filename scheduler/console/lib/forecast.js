// Coming fires: of all jobs in the order of time, or of those with a name.
import { parentOf, quoted } from "./names.js";
import { call, listAll } from "./rpc.js";
import { anchored, kindOf } from "./schedules.js";
import { instant } from "./time.js";

export const HOUR_MS = 3_600_000;
/** Fires that are looked at. */
const FIRES_MAX = 10_000;
/** Jobs of a name, and fires of one schedule, that are looked at. */
const JOBS_MAX = 40;
const PREVIEW_MAX = 500;

/** @typedef {NonNullable<pb.ForecastRunsResponse["fires"]>[number]} Fire */
/** @typedef {{ fires: Fire[], until: number }} Forecast `until`: where it was cut, or 0 */

/** @param {string | null} app @param {number} hours @returns {Promise<Forecast>} */
export async function firesOfAll(app, hours) {
  const start = Date.now();
  const body = {
    parent: parentOf(app),
    startTime: new Date(start).toISOString(),
    endTime: new Date(start + hours * HOUR_MS).toISOString(),
  };
  const { items, more } = await listAll("JobService/ForecastRuns", body, "fires", FIRES_MAX);
  const fires = /** @type {Fire[]} */ (items);
  return { fires, until: more ? instant(fires.at(-1)?.fireTime) : 0 };
}

/**
 * Of jobs whose name has the text: asked for one by one, so that a job of each second does not hide
 * the daily one.
 * @param {string} text
 * @param {string | null} app
 * @param {number} hours
 * @returns {Promise<Forecast>}
 */
export async function firesNamed(text, app, hours) {
  const end = Date.now() + hours * HOUR_MS;
  /** @type {pb.ListJobsResponse} */
  const { jobs = [] } = await call("JobService/ListJobs", {
    parent: parentOf(app), pageSize: JOBS_MAX, filter: `state = ACTIVE AND name : ${quoted(text)}`,
  });
  let until = 0;
  const each = jobs.flatMap((job) => (job.schedules ?? [])
    .filter((schedule) => !["none", "delay"].includes(kindOf(schedule)))
    .map(async (schedule) => {
      /** @type {pb.PreviewScheduleResponse} */
      const { fireTimes = [] } = await call("JobService/PreviewSchedule",
        { schedule: anchored(schedule, job.createTime), count: PREVIEW_MAX });
      const last = instant(fireTimes.at(-1));
      if (fireTimes.length === PREVIEW_MAX && last < end) until = Math.min(until || last, last);
      return fireTimes.map((fireTime) =>
        ({ job: job.name, fireTime, timeZone: schedule.timeZone, handler: job.handler }));
    }));
  const fires = (await Promise.all(each)).flat().filter((fire) =>
    instant(fire.fireTime) < (until || end));
  fires.sort((a, b) => instant(a.fireTime) - instant(b.fireTime));
  return { fires, until };
}
