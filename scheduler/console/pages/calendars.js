// Calendars: named sets of days that schedules include or exclude.
import { html, useState } from "../lib/dom.js";
import { WEEKDAYS, askUses, calendarHref, dayName, dayOf, today } from "../lib/calendars.js";
import { atLeast, t } from "../lib/i18n.js";
import { useAsk, useList } from "../lib/list.js";
import { appOf, idOf, parentOf, shortOf } from "../lib/names.js";
import { go, useRoute } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { can } from "../lib/session.js";
import { Button, Empty, PageHead } from "../parts/basics.js";
import { Ask } from "../parts/dialog.js";
import { ClearFilters, PickApp } from "../parts/filters.js";
import { Table } from "../parts/table.js";
import { CalendarForm } from "./calendars/form.js";

export function Calendars() {
  const { query } = useRoute();
  const app = query.get("app");
  const list = useList({ method: "CalendarService/ListCalendars", body: { parent: parentOf(app) },
    field: "calendars" });
  const uses = useAsk(askUses, []).value;
  const [editing, setEditing] = useState(/** @type {pb.Calendar | null} */ (null));
  const [gone, setGone] = useState(/** @type {pb.Calendar | null} */ (null));
  const remove = () => deleteCalendar(gone ?? {}).then(() => list.remove([gone?.name ?? ""]));
  const add = can("EDITOR") && html`<${Button} kind="main" icon="plus"
    onClick=${() => setEditing({})}>${t("calendar.new")}<//>`;
  return html`<${PageHead} title=${t("page.calendars")}>${list.rows.length > 0 && add}<//>
    <div class="filters"><${PickApp} /><${ClearFilters} names=${["app"]} /></div>
    <${Table} label=${t("page.calendars")} list=${list}
      columns=${columnsOf(uses, setEditing, setGone)}
      hrefOf=${(/** @type {pb.Calendar} */ one) => calendarHref(one.name ?? "")}
      empty=${html`<${Empty} title=${t("calendars.none")} hint=${t("calendars.noneHint")}>
        ${add}<//>`} />
    ${editing && html`<${CalendarForm} calendar=${editing} app=${app ?? ""}
      close=${() => setEditing(null)} done=${(/** @type {pb.Calendar} */ saved) =>
        (editing.name ? list.patch(saved) : go(calendarHref(saved.name ?? "")))} />`}
    ${gone && html`<${DeleteCalendar} calendar=${gone} act=${remove}
      close=${() => setGone(null)} />`}`;
}

/** @param {pb.Calendar} calendar */
export const deleteCalendar = ({ name, etag }) =>
  call("CalendarService/DeleteCalendar", { name, etag });

/** @param {{ calendar: pb.Calendar, act: () => Promise<unknown>, close: () => void }} props */
export const DeleteCalendar = ({ calendar, act, close }) =>
  html`<${Ask} title=${t("calendar.deleteTitle", { name: shortOf(calendar.name) })}
    lead=${t("calendar.deleteLead")} verb=${t("do.delete")} danger close=${close} act=${act} />`;

/**
 * @param {import("../lib/calendars.js").Uses | undefined} uses
 * @param {(calendar: pb.Calendar) => void} edit
 * @param {(calendar: pb.Calendar) => void} remove
 * @returns {import("../parts/table.js").Column<pb.Calendar>[]}
 */
function columnsOf(uses, edit, remove) {
  return [
    { id: "name", label: t("word.calendar"), class: "first", cell: (one) =>
      html`<a class="name" href=${calendarHref(one.name ?? "")}>
        <span class="of">${appOf(one.name ?? "")}/</span>${idOf(one.name)}</a>
      ${one.displayName && html`<span class="under">${one.displayName}</span>`}` },
    { id: "covers", label: t("calendar.covers"), cell: covers },
    { id: "next", label: t("calendar.nextDate"), cell: nextDate },
    { id: "uses", label: t("calendar.jobs"), class: "num", cell: (one) =>
      uses && atLeast(uses.of.get(one.name ?? "")?.length ?? 0, uses.more) },
    { id: "do", label: "", class: "do", cell: (one) => can("EDITOR", appOf(one.name ?? "")) &&
      html`<span class="row">
        <${Button} kind="quiet" icon="edit" label=${t("do.edit")} onClick=${() => edit(one)} />
        <${Button} kind="quiet" icon="trash" label=${t("do.delete")}
          onClick=${() => remove(one)} /></span>` },
  ];
}

/** What a calendar covers, in a few words. @param {pb.Calendar} calendar */
function covers({ dates = [], weekdays = [], windows = [] }) {
  const parts = [
    dates.length && t("calendar.nDates", { n: dates.length }),
    weekdays.length && WEEKDAYS.filter((day) => weekdays.includes(day)).map(dayName).join(", "),
    windows.length && t("calendar.nWindows", { n: windows.length }),
  ].filter(Boolean);
  return parts.join(" · ") || html`<span class="none">${t("calendar.nothing")}</span>`;
}

/** @param {pb.Calendar} calendar */
function nextDate({ dates = [] }) {
  const date = dates.find((one) => one >= today());
  if (!date) return html`<span class="none">–</span>`;
  return html`<time datetime=${date}>${date} <span class="of">${dayOf(date)}</span></time>`;
}
