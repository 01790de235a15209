// One schedule of a job under way, with what the scheduler makes of it.
import { html } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { appOf, idOf, shortOf } from "../../lib/names.js";
import { anchored, kindOf } from "../../lib/schedules.js";
import { LOCAL_ZONE, knowsZone } from "../../lib/time.js";
import { Button } from "../../parts/basics.js";
import { InstantField, LengthField, SelectField, TextField, TickField,
  WordsField } from "../../parts/form.js";
import { Preview } from "../../parts/preview.js";

const KINDS = ["cron", "interval", "delay", "at"];
const DIALECTS = ["UNIX", "QUARTZ", "SPRING"];
const EXAMPLES = ["*/5 * * * *", "0 2 * * *", "0 9 * * MON-FRI", "0 0 1 * *", "@hourly",
  "0 0 9 ? * 2-6"];

/** What a kind of schedule begins with. @param {string} kind @returns {pb.Schedule} */
function beginning(kind) {
  switch (kind) {
    case "interval":
      return { interval: "60s" };
    case "delay":
      return { delay: "60s" };
    case "at":
      return { at: new Date(Math.ceil(Date.now() / 3_600_000) * 3_600_000).toISOString() };
    default:
      return { cron: "0 2 * * *" };
  }
}

/** A new schedule. @returns {pb.Schedule} */
export const fresh = () => ({ ...beginning("cron"), timeZone: LOCAL_ZONE });

/**
 * @param {{
 *   app: string, schedule: pb.Schedule, since?: string,
 *   change: (next: pb.Schedule) => void, remove: () => void, calendars: string[],
 *   place: (field: string) => { at: string, fault?: string },
 *   tell: (field: string, wrong: boolean) => void,
 * }} props `since`: when the job was made
 */
export function ScheduleEditor({ app, schedule, since, change, remove, calendars, place, tell }) {
  const kind = kindOf(schedule);
  const shownKind = kind === "none" ? "cron" : kind;
  const zone = schedule.timeZone && knowsZone(schedule.timeZone) ? schedule.timeZone : "UTC";
  /** @param {Partial<pb.Schedule>} more */
  const set = (more) => {
    const next = /** @type {any} */ ({ ...schedule, ...more });
    for (const key of Object.keys(next)) if (next[key] === undefined ||
      next[key] === "") delete next[key];
    if (shownKind === "cron" && !("cron" in next)) next.cron = "";
    change(next);
  };
  /** @param {string} next */
  const setKind = (next) => {
    const { cron, interval, delay, at, cronDialect, ...others } = schedule;
    change({ ...others, ...beginning(next) });
  };
  return html`<div class="schedule">
    <div class="fields">
      <${SelectField} label=${t("schedule.kind")} value=${shownKind} change=${setKind}
        options=${KINDS.map((one) => [one, t(`schedule.kind.${one}`)])} />
      ${shownKind === "cron" &&
        html`<${TextField} label=${t("schedule.cron")} value=${schedule.cron ?? ""} mono
          change=${(/** @type {string} */ cron) => set({ cron })} ...${place("cron")}
            list="cron-examples" must />
        <datalist id="cron-examples">
          ${EXAMPLES.map((one) => html`<option key=${one} value=${one} />`)}</datalist>`}
      ${(shownKind === "interval" || shownKind === "delay") && html`<${LengthField} key=${shownKind}
        label=${t(`schedule.${shownKind}`)} value=${schedule[shownKind]}
          ...${place(shownKind)} must
        change=${(/** @type {string} */ text) => text && set({ [shownKind]: text })}
        tell=${(/** @type {boolean} */ wrong) => tell(shownKind, wrong)} />`}
      ${shownKind === "at" && html`<${InstantField} label=${t("schedule.at")} value=${schedule.at}
        zone=${zone}
        change=${(/** @type {string | undefined} */ at) => at && set({ at })} ...${place("at")}
          />`}
      <${TextField} label=${t("schedule.zone")} value=${schedule.timeZone ?? ""} list="zones"
        placeholder=${t("form.default", { text: "UTC" })} ...${place("timeZone")}
        change=${(/** @type {string} */ timeZone) => set({ timeZone: timeZone.trim() })} />
      ${shownKind === "cron" &&
        html`<${SelectField} label=${t("schedule.dialect")} none=${t("schedule.detect")}
        value=${(schedule.cronDialect ?? "").replace("CRON_DIALECT_", "").replace("UNSPECIFIED",
          "")}
        change=${(/** @type {string} */ one) => set({ cronDialect: one && `CRON_DIALECT_${one}` })}
        options=${DIALECTS.map((one) => [one, t(`dialect.${one}`)])} />`}
    </div>
    <${Button} kind="quiet" icon="trash" onClick=${remove} label=${t("schedule.remove")} />
    <${Preview} app=${app} schedule=${anchored(schedule, since)} quiet />
    <details class="more"><summary>${t("schedule.more")}</summary><div class="fields">
      <${InstantField} label=${t("schedule.start")} value=${schedule.startTime} zone=${zone}
        change=${(/** @type {string | undefined} */ startTime) => set({ startTime })}
          ...${place("startTime")} />
      <${InstantField} label=${t("schedule.end")} value=${schedule.endTime} zone=${zone}
        change=${(/** @type {string | undefined} */ endTime) => set({ endTime })}
          ...${place("endTime")} />
      <${LengthField} label=${t("schedule.spread")} hint=${t("schedule.spreadHint")}
        value=${schedule.spread}
        change=${(/** @type {string | undefined} */ spread) => set({ spread })}
          ...${place("spread")}
        tell=${(/** @type {boolean} */ wrong) => tell("spread", wrong)} />
      <${WordsField} label=${t("schedule.excluded")} hint="2026-12-24, 2026-12-31"
        value=${schedule.excludedDates}
        change=${(/** @type {string[] | undefined} */ excludedDates) => set({ excludedDates })}
          ...${place("excludedDates")} />
      ${/** @type {const} */ (["includeCalendars", "excludeCalendars"]).map((field) =>
        [...calendars, ...schedule[field] ?? []].length > 0 && html`<${Calendars} key=${field}
        field=${field} app=${app} all=${calendars} schedule=${schedule} set=${set}
        ...${place(field)} />`)}
    </div></details></div>`;
}

/**
 * @param {{
 *   field: "includeCalendars" | "excludeCalendars", app: string, all: string[],
 *   schedule: pb.Schedule,
 *   set: (more: Partial<pb.Schedule>) => void, at: string, fault?: string,
 * }} props
 */
function Calendars({ field, app, all, schedule, set, at, fault }) {
  const chosen = schedule[field] ?? [];
  const isOwn = (/** @type {string} */ name) => appOf(name) === app;
  const names = [...new Set([...all, ...chosen])];
  // The app's own first.
  names.sort((a, b) => Number(isOwn(b)) - Number(isOwn(a)));
  /** @param {string} name @param {boolean} on */
  const flip = (name, on) => {
    const next = on ? [...chosen, name] : chosen.filter((other) => other !== name);
    set({ [field]: next.length ? next : undefined });
  };
  return html`<fieldset class="field" data-at=${at}><legend>
    ${t(`schedule.${field === "includeCalendars" ? "include" : "exclude"}`)}</legend>
    ${names.map((name) => html`<${TickField} key=${name}
      label=${isOwn(name) ? idOf(name) : shortOf(name)}
      value=${chosen.includes(name)}
      change=${(/** @type {boolean} */ on) => flip(name, on)} />`)}
    ${fault && html`<small class="field-fault">${fault}</small>`}</fieldset>`;
}

/** The zones that the browser knows, for fields that take one. */
export const Zones = () =>
  html`<datalist id="zones">${["UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) =>
  html`<option key=${zone} value=${zone} />`)}</datalist>`;
