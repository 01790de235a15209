// One calendar: its days, and the jobs that go by it.
import { html, useState } from "../lib/dom.js";
import { WEEKDAYS, askUses, dayName, dayOf, named, today } from "../lib/calendars.js";
import { t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { go, href } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { zoneOf } from "../lib/schedules.js";
import { can } from "../lib/session.js";
import { Button, ButtonLink, Empty, Fault, Loading, PageHead, Panel } from "../parts/basics.js";
import { say } from "../parts/dialog.js";
import { JobLink, Life } from "../parts/state.js";
import { When, ZoneNote } from "../parts/when.js";
import { DeleteCalendar, deleteCalendar } from "./calendars.js";
import { CalendarForm } from "./calendars/form.js";

/** @param {{ app: string, id: string }} props */
export function Calendar({ app, id }) {
  const name = `apps/${app}/calendars/${id}`;
  const asked = useAsk(() =>
    /** @type {Promise<pb.Calendar>} */ (call("CalendarService/GetCalendar", { name })), [name]);
  const uses = useAsk(askUses, [name]);
  const [asking, setAsking] = useState("");
  const close = () => setAsking("");
  const up = { href: href("/calendars"), text: t("page.calendars") };
  const calendar = asked.value;
  if (!calendar) {
    return asked.error ? html`<${PageHead} title=${id} up=${up} />
      <${Fault} error=${asked.error} again=${asked.again} />` : html`<${Loading} />`;
  }
  const { dates = [], weekdays = [], windows = [] } = calendar;
  const saved = () => {
    say(t("calendar.saved", { name: `${app}/${id}` }));
    asked.again();
    uses.again();
  };
  const remove = async () => {
    await deleteCalendar(calendar);
    say(t("calendar.deleted"));
    go(href("/calendars"));
  };
  return html`<${PageHead} up=${up} lead=${calendar.displayName}
      title=${html`<span class="of">${app}/</span>${id}`}>
      ${can("EDITOR", app) && html`
        <${Button} icon="edit" onClick=${() => setAsking("edit")}>${t("do.edit")}<//>
        <${Button} kind="danger" icon="trash" label=${t("do.delete")}
          onClick=${() => setAsking("delete")} />`}<//>
    <${Fault} error=${asked.error} again=${asked.again} />
    <div class="columns">
      <${Panel} title=${t("calendar.dates")}><${Dates} dates=${dates} /><//>
      <${Panel} title=${t("calendar.weekdays")}>${weekdays.length
        ? html`<p>${WEEKDAYS.filter((day) => weekdays.includes(day)).map(dayName).join(", ")}</p>`
        : html`<p class="none">${t("calendar.noWeekdays")}</p>`}<//>
      <${Panel} title=${t("calendar.windows")} aside=${windows.length > 0 &&
        html`<${ZoneNote} />`}><${Windows} windows=${windows} /><//>
      <${Panel} title=${t("calendar.usedBy")}><${Users} name=${name} uses=${uses} /><//>
    </div>
    ${asking === "edit" && html`<${CalendarForm} calendar=${calendar} app=${app} close=${close}
      done=${saved} />`}
    ${asking === "delete" && html`<${DeleteCalendar} calendar=${calendar} act=${remove}
      close=${close} />`}`;
}

/** Dates by the year, those that have passed fainter. @param {{ dates: string[] }} props */
function Dates({ dates }) {
  if (dates.length === 0) return html`<p class="none">${t("calendar.noDates")}</p>`;
  const now = today();
  const years = [...new Set(dates.map((date) => date.slice(0, 4)))];
  return years.map((year) => html`<h3 key=${year}>${year}</h3><ul class="plain dates">
    ${dates.filter((date) => date.startsWith(year)).map((date) => html`<li key=${date}>
      <time datetime=${date} class=${date < now ? "past" : ""}>${date.slice(5)}
        <span class="of"> ${dayOf(date)}</span></time></li>`)}</ul>`);
}

/** @param {{ windows: import("./calendars/form.js").Window[] }} props */
function Windows({ windows }) {
  if (windows.length === 0) return html`<p class="none">${t("calendar.noWindows")}</p>`;
  return html`<ul class="plain">${windows.map((one, i) => html`<li key=${i}>
    <${When} at=${one.startTime} bare /> – <${When} at=${one.endTime} bare /></li>`)}</ul>`;
}

/**
 * The jobs that use it, as far as the viewer may see them.
 * @param {{
 *   name: string,
 *   uses: { value?: import("../lib/calendars.js").Uses, error: unknown, again: () => void },
 * }} props
 */
function Users({ name, uses: { value, error, again } }) {
  if (!value) {
    return error ? html`<${Fault} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const jobs = value.of.get(name) ?? [];
  const note = value.more && html`<p class="field-note">${t("calendar.notAllJobs")}</p>`;
  if (jobs.length === 0) {
    return html`${note}<${Empty} title=${t("calendar.unused")} hint=${t("calendar.unusedHint")}>
      <${ButtonLink} href=${href("/jobs")}>${t("page.jobs")}<//><//>`;
  }
  return html`${note}<table class="small"><thead><tr><th>${t("word.job")}</th>
      <th>${t("calendar.how")}</th><th>${t("word.state")}</th><th>${t("job.next")}</th></tr></thead>
    <tbody>${jobs.map((job) => html`<tr key=${job.name}><td><${JobLink} name=${job.name} /></td>
      <td>${how(job, name)}</td><td><${Life} state=${job.state} /></td>
      <td><${When} at=${job.nextFireTime} zone=${zoneOf(job)} rel next /></td></tr>`)}</tbody>
        </table>`;
}

/** How a job uses a calendar. @param {pb.Job} job @param {string} name */
function how(job, name) {
  const ways = [];
  if (named(job, "includeCalendars").includes(name)) ways.push(t("calendar.included"));
  if (named(job, "excludeCalendars").includes(name)) ways.push(t("calendar.excluded"));
  return ways.join(", ");
}
