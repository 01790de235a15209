// The settings of a job, as they are in force.
import { html } from "../../lib/dom.js";
import { calendarHref } from "../../lib/calendars.js";
import { t } from "../../lib/i18n.js";
import { shortOf } from "../../lib/names.js";
import { inWords } from "../../lib/schedules.js";
import { plainNumber } from "../../parts/form.js";
import { length, seconds } from "../../lib/time.js";
import { Facts, Panel } from "../../parts/basics.js";
import { Payload } from "../../parts/code.js";
import { Person } from "../../parts/person.js";
import { JobLink, Labels } from "../../parts/state.js";
import { When } from "../../parts/when.js";
import { SECTIONS } from "../jobform/fields.js";
import { read } from "../jobform/model.js";
import { usualWords } from "../jobform/setting.js";

/** @param {{ job: pb.Job }} props */
export function Settings({ job }) {
  return html`<div class="columns">
    <${Panel} title=${t("form.what")}><${Facts} of=${[
      [t("word.handler"), html`<span class="mono">${job.handler}</span>`],
      [t("word.owner"), job.owner],
      [t("word.labels"), Object.keys(job.labels ?? {}).length > 0 &&
        html`<${Labels} labels=${job.labels} />`],
      [t("job.revision"), job.revision],
      [t("job.created"), html`<${When} at=${job.createTime} />`],
      [t("job.updated"), html`<${When} at=${job.updateTime} /> <span class="of">
        <${Person} name=${job.updateBy} /></span>`],
      [t("form.onSuccess"), links(job.onSuccess)],
      [t("form.onFailure"), links(job.onFailure)],
    ]} /><//>
    <${Panel} title=${t("run.params")}>
      <${Payload} of=${job.params} label=${t("run.params")} none=${t("run.noParams")} /><//>
    <${Panel} title=${t("form.when")}>
      ${(job.schedules ?? []).map((schedule, i) => html`<${Facts} key=${i} of=${[
      [t("job.schedule"), html`<span class="mono">${inWords(schedule)}</span>`],
      [t("schedule.zone"), schedule.timeZone || "UTC"],
      [t("schedule.start"), schedule.startTime &&
        html`<${When} at=${schedule.startTime} zone=${schedule.timeZone} />`],
      [t("schedule.end"), schedule.endTime &&
        html`<${When} at=${schedule.endTime} zone=${schedule.timeZone} />`],
      [t("schedule.spread"), length(seconds(schedule.spread) * 1000)],
      [t("schedule.excluded"), schedule.excludedDates?.join(", ")],
      [t("schedule.include"), calendars(schedule.includeCalendars)],
      [t("schedule.exclude"), calendars(schedule.excludeCalendars)],
    ]} />`)}
    ${!job.schedules?.length && html`<p class="none">${t("schedule.byHand")}</p>`}<//>
    ${SECTIONS.map((section) => html`<${Panel} key=${section.id} title=${t(`form.${section.id}`)}>
      <${Facts} of=${section.fields.map((field) =>
        [t(`form.${field.label}`), inForce(read(job, field.path), field)])} /><//>`)}
  </div>`;
}

/** @param {string[] | undefined} jobs */
const links = (jobs) => jobs?.length &&
  jobs.map((name) => html`<${JobLink} key=${name} name=${name} /> `);

/** @param {string[] | undefined} names */
const calendars = (names) => names?.length && names.map((name) =>
  html`<a key=${name} href=${calendarHref(name)}>${shortOf(name)}</a> `);

/** @param {any} value @param {import("../jobform/fields.js").Setting} field */
function inForce(value, field) {
  if (value === undefined || value === null || value === "") {
    if (field.kind === "tick") return t("form.no");
    const usual = usualWords(field);
    return html`<span class="none">${usual ? t("form.default", { text: usual }) : "–"}</span>`;
  }
  if (field.kind === "choice") return t(`choice.${String(value)}`);
  if (field.kind === "length") return length(seconds(String(value)) * 1000);
  if (field.kind === "labels") return html`<${Labels} labels=${value} />`;
  if (field.kind === "words") return value.join(", ");
  if (field.kind === "tick") return t("form.yes");
  return typeof value === "number" ? plainNumber(value) : String(value);
}
