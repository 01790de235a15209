// The coming fire times of a job, schedule by schedule, with remarks.
import { html } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { appOf } from "../../lib/names.js";
import { anchored, kindOf } from "../../lib/schedules.js";
import { Empty, Panel } from "../../parts/basics.js";
import { Preview } from "../../parts/preview.js";

/** @param {{ job: pb.Job }} props */
export function Coming({ job }) {
  const schedules = (job.schedules ?? []).filter((schedule) => kindOf(schedule) !== "none");
  if (schedules.length === 0) return html`<${Empty} title=${t("job.noSchedule")}
    hint=${t("job.noScheduleHint")} />`;
  return html`${job.state === "STATE_PAUSED" &&
    html`<p class="field-note">${t("job.pausedNote")}</p>`}
    <div class="columns">${schedules.map((schedule, i) => html`<${Panel} key=${i}
      title=${schedules.length > 1 ? t("job.scheduleN", { n: i + 1 }) : t("job.schedule")}>
      <${Preview} app=${appOf(job.name ?? "")} schedule=${anchored(schedule, job.createTime)}
        count=${20} /><//>`)}</div>`;
}
