// A calendar, new or changed.
import { html, useState } from "../../lib/dom.js";
import { WEEKDAYS, dayName } from "../../lib/calendars.js";
import { t } from "../../lib/i18n.js";
import { appOf, idOf, requestId, shortOf } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { shownZone } from "../../lib/time.js";
import { Button, Loading } from "../../parts/basics.js";
import { Ask } from "../../parts/dialog.js";
import { onlyOf, useOwnApps } from "../../parts/filters.js";
import { InstantField, TextField, TickField } from "../../parts/form.js";
import { pathOf } from "../jobform/model.js";

const DATE_ROWS = 8;

/** @typedef {NonNullable<pb.Calendar["windows"]>[number]} Window */

/**
 * @typedef {{
 *   calendar: pb.Calendar, app: string, close: () => void, done: (saved: pb.Calendar) => void,
 * }} Props `app` of a calendar that is new
 */

/** @param {Props} props */
export function CalendarForm(props) {
  const { apps, asked } = useOwnApps();
  return asked ? html`<${Form} ...${props} apps=${apps} />` : html`<${Loading} />`;
}

/** @param {Props & { apps: string[] | undefined }} props */
function Form({ calendar: from, app: firstApp, apps, close, done }) {
  const [calendar, setCalendar] = useState(from);
  const [app, setApp] = useState(from.name ? appOf(from.name) : firstApp || onlyOf(apps));
  const [id, setId] = useState(idOf(from.name));
  const [dates, setDates] = useState((from.dates ?? []).join("\n"));
  const [faults, setFaults] = useState(/** @type {[string, string][]} */ ([]));
  const { weekdays = [], windows = [] } = calendar;
  /** @param {Partial<pb.Calendar>} more */
  const set = (more) => setCalendar((before) => ({ ...before, ...more }));
  /** The first fault of a field or of what it holds. @param {string} field */
  const faultAt = (field) => faults.find(([path]) => path.split(/[.[]/)[0] === field)?.[1];
  const act = async () => {
    const whole = { ...calendar, dates: dates.split(/[\s,;]+/).filter(Boolean) };
    try {
      done(await (from.name
        ? call("CalendarService/UpdateCalendar",
          { calendar: whole, updateMask: "displayName,dates,weekdays,windows" })
        : call("CalendarService/CreateCalendar",
          { parent: `apps/${app}`, calendarId: id, calendar: whole, requestId: requestId() })));
    } catch (error) {
      const { fields = [] } = /** @type {import("../../lib/rpc.js").RpcError} */ (error);
      setFaults(fields.map((one) => {
        const path = pathOf(one.field).replace(/^calendar\./, "");
        const [, at] = /^dates\[(\d+)\]$/.exec(path) ?? [];
        return [path, at ? `${whole.dates[Number(at)]} ${one.description}` : one.description];
      }));
      throw error;
    }
  };
  return html`<${Ask} wide verb=${t("do.save")} close=${close} act=${act}
    title=${from.name ? t("calendar.edit", { name: shortOf(from.name) }) : t("calendar.new")}>
    <div class="fields">
      ${!from.name && html`
        <datalist id="apps">${apps?.map((one) =>
          html`<option key=${one} value=${one} />`)}</datalist>
        <${TextField} label=${t("word.app")} value=${app} change=${setApp} must list="apps"
          hint=${t("calendar.appHint")} fault=${faultAt("parent")} />
        <${TextField} label=${t("form.id")} value=${id} change=${setId} must mono
          hint=${t("form.id.hint")} fault=${faultAt("calendarId")} />`}
      <${TextField} label=${t("form.displayName")} value=${calendar.displayName ?? ""}
        fault=${faultAt("displayName")}
        change=${(/** @type {string} */ displayName) => set({ displayName })} />
    </div>
    <div class="fields">
      <${TextField} label=${t("calendar.dates")} value=${dates} change=${setDates} mono
        rows=${DATE_ROWS} placeholder=${"2027-01-01\n2027-12-25"} hint=${t("calendar.datesHint")}
        fault=${faultAt("dates")} />
      <${Weekdays} chosen=${weekdays} change=${(/** @type {number[]} */ next) =>
        set({ weekdays: next })} />
    </div>
    ${windows.map((window, i) => html`<${WindowFields} key=${i} window=${window}
      faultOf=${(/** @type {string} */ end) =>
        faults.find(([path]) => path === `windows[${i}].${end}`)?.[1]}
      change=${(/** @type {Window} */ next) => set({ windows: windows.with(i, next) })}
      remove=${() => set({ windows: windows.toSpliced(i, 1) })} />`)}
    <div class="row"><${Button} icon="plus" onClick=${() => set({ windows: [...windows, {}] })}>
      ${t("calendar.addWindow")}<//></div><//>`;
}

/** @param {{ chosen: number[], change: (next: number[]) => void }} props */
function Weekdays({ chosen, change }) {
  /** @param {number} day @param {boolean} on */
  const flip = (day, on) =>
    change(WEEKDAYS.filter((one) => (one === day ? on : chosen.includes(one))));
  return html`<fieldset class="field"><legend>${t("calendar.weekdays")}</legend>
    ${WEEKDAYS.map((day) => html`<${TickField} key=${day} label=${dayName(day)}
      value=${chosen.includes(day)}
      change=${(/** @type {boolean} */ on) => flip(day, on)} />`)}</fieldset>`;
}

/**
 * @param {{
 *   window: Window, change: (next: Window) => void, remove: () => void,
 *   faultOf: (end: string) => string | undefined,
 * }} props
 */
function WindowFields({ window, change, remove, faultOf }) {
  const zone = shownZone();
  return html`<fieldset class="channel"><legend>${t("calendar.window")}
      <${Button} kind="quiet" icon="trash" label=${t("calendar.removeWindow")}
        onClick=${remove} /></legend>
    <div class="fields">
      <${InstantField} label=${t("schedule.start")} value=${window.startTime} zone=${zone}
        fault=${faultOf("startTime")} change=${(/** @type {string | undefined} */ startTime) =>
          change({ ...window, startTime })} />
      <${InstantField} label=${t("schedule.end")} value=${window.endTime} zone=${zone}
        fault=${faultOf("endTime")} change=${(/** @type {string | undefined} */ endTime) =>
          change({ ...window, endTime })} />
    </div></fieldset>`;
}
