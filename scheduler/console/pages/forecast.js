// What will fire, as a calendar of hours and as a list.
import { html, useState } from "../lib/dom.js";
import { atLeast, number, t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { HOUR_MS, firesNamed, firesOfAll } from "../lib/forecast.js";
import { href, setQuery, useRoute } from "../lib/router.js";
import { clockOf, dateOf, instant, shownZone, weekday, whole } from "../lib/time.js";
import { ButtonLink, Empty, Fault, Loading, PageHead, Panel } from "../parts/basics.js";
import { ClearFilters, Pick, PickApp, Search } from "../parts/filters.js";
import { JobLink } from "../parts/state.js";
import { When, ZoneNote } from "../parts/when.js";

const LISTED = 100;
const REFRESH_MS = 60_000;
const SPANS = ["1", "6", "24", "72", "168"];
const LEVELS = 5;

/** @typedef {import("../lib/forecast.js").Fire} Fire */

export function Forecast() {
  const { query } = useRoute();
  const hours = SPANS.includes(query.get("hours") ?? "") ? Number(query.get("hours")) : 24;
  const app = query.get("app");
  const text = query.get("q") ?? "";
  const asked = useAsk(() => (text ? firesNamed(text, app, hours) : firesOfAll(app, hours)),
    [`${hours} ${app} ${text}`], REFRESH_MS);
  const all = asked.value?.fires;
  const at = Number(query.get("at")) || 0;
  const shown = at ? all?.filter((fire) => Math.floor(instant(fire.fireTime) / HOUR_MS) === at) :
    all;
  return html`<${PageHead} title=${t("page.forecast")} />
    <div class="filters">
      <${Search} label=${t("forecast.search")} />
      <${PickApp} />
      <${Pick} name="hours" label=${t("forecast.span")} any=${t("forecast.hours.24")}
        options=${SPANS.filter((span) => span !== "24").map((span) =>
          [span, t(`forecast.hours.${span}`)])} />
      <${ClearFilters} names=${["q", "app", "hours", "at"]} /><${ZoneNote} /></div>
    <${Fault} error=${asked.error} again=${asked.again} />
    ${!all && !asked.error && html`<${Loading} />`}
    ${asked.value?.until && html`<p class="field-note">${t("forecast.cut",
      { at: whole(asked.value.until, shownZone()) })}</p>`}
    ${all && all.length === 0 &&
      html`<${Empty} title=${t("forecast.none")} hint=${t("forecast.noneHint")}>
      <${ButtonLink} href=${href("/jobs")}>${t("page.jobs")}<//><//>`}
    ${all && all.length > 0 && html`<${Calendar} fires=${all} hours=${hours} at=${at}
        until=${asked.value?.until ?? 0} />
      <${List} fires=${shown ?? []} at=${at} until=${asked.value?.until ?? 0} />`}`;
}

/**
 * Days down, hours across; the fuller an hour, the darker.
 * @param {{ fires: Fire[], hours: number, at: number, until: number }} props
 *   `until`: hours from then on were not looked at, or not wholly
 */
function Calendar({ fires, hours, at, until }) {
  const zone = shownZone();
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (const fire of fires) {
    const hour = Math.floor(instant(fire.fireTime) / HOUR_MS);
    counts.set(hour, (counts.get(hour) ?? 0) + 1);
  }
  const top = Math.max(...counts.values());
  const first = Math.floor(Date.now() / HOUR_MS);
  /** @type {Map<string, number[]>} */
  const days = new Map();
  for (let hour = first; hour <= first + hours; hour += 1) {
    const day = dateOf(hour * HOUR_MS, zone);
    days.set(day, [...(days.get(day) ?? []), hour]);
  }
  const level = (/** @type {number} */ n) =>
    (n ? Math.max(1, Math.ceil((LEVELS * Math.log(n + 1)) / Math.log(top + 1))) : 0);
  return html`<${Panel} title=${t("forecast.calendar")}
    aside=${html`<span class="minor">${t("forecast.calendarNote")}</span>`}>
    <div class="calendar"><table><thead><tr><td></td>${Array.from({ length: 24 }, (_, i) =>
      html`<th key=${i} scope="col">${String(i).padStart(2, "0")}</th>`)}</tr></thead>
    <tbody>${[...days].map(([day, all]) => html`<tr key=${day}>
      <th scope="row"><span class="of">
        ${weekday(all[0] * HOUR_MS, zone)}</span> ${day.slice(5)}</th>
      ${cells(all, zone).map((hour, i) => {
        const n = hour === null ? 0 : counts.get(hour) ?? 0;
        if (hour === null) return html`<td key=${i}></td>`;
        const cut = until > 0 && (hour + 1) * HOUR_MS > until;
        const unknown = cut && n === 0;
        const words = t(unknown ? "forecast.unknown" : "forecast.hour",
          { at: whole(hour * HOUR_MS, zone), n: atLeast(n, cut) });
        return html`<td key=${i}>
          <button type="button" disabled=${unknown}
          class=${`heat ${unknown ? "heat-unknown" : `heat-${level(n)}`}`}
          aria-pressed=${hour === at} aria-label=${words} title=${words}
          onClick=${() => setQuery({ at: hour === at ? "" : String(hour) })}>
            ${unknown ? "?" : n ? short(n) : ""}</button></td>`;
      })}</tr>`)}</tbody></table></div><//>`;
}

/**
 * The hours of a day at their places; a day of a clock change may lack one.
 * @param {number[]} hours
 * @param {string} zone
 */
function cells(hours, zone) {
  /** @type {(number | null)[]} */
  const places = new Array(24).fill(null);
  for (const hour of hours) places[Number(clockOf(hour * HOUR_MS, zone).slice(0, 2))] ??= hour;
  return places;
}

/** @param {number} n */
const short = (n) => (n < 1000 ? String(n) : `${number(n / 1000, 1)}k`);

/**
 * @param {{ fires: Fire[], at: number, until: number }} props
 *   `at`: of this hour only; `until`: fires from then on were not looked at
 */
function List({ fires, at, until }) {
  const [count, setCount] = useState(LISTED);
  const cut = until > 0 && (!at || (at + 1) * HOUR_MS > until);
  const n = atLeast(fires.length, cut);
  const title = at ? t("forecast.inHour", { at: whole(at * HOUR_MS, shownZone()), n })
    : t("forecast.fires", { n });
  return html`<${Panel} title=${title}>
    <table class="small"><thead><tr><th>${t("run.fire")}</th><th>${t("word.job")}</th><th>
      ${t("word.handler")}</th>
      <th>${t("schedule.zone")}</th></tr></thead>
    <tbody>${fires.slice(0, count).map((fire, i) => html`<tr key=${i}>
      <td><${When} at=${fire.fireTime} zone=${fire.timeZone || "UTC"} bare rel next /></td><td>
        <${JobLink} name=${fire.job} /></td>
      <td class="mono">${fire.handler}</td><td>${fire.timeZone || "UTC"}</td></tr>`)}</tbody>
        </table>
    ${fires.length > count &&
      html`<button type="button" class="link" onClick=${() => setCount(count + LISTED)}>
      ${t("list.rest", { n: fires.length - count })}</button>`}<//>`;
}
