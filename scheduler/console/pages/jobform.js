// A job: written anew, copied or changed. The scheduler itself checks it as it is typed.
import { html, useEffect, useState } from "../lib/dom.js";
import { useHandlers } from "../lib/handlers.js";
import { t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { idOf, requestId, shortOf } from "../lib/names.js";
import { jsonPayload, textOf } from "../lib/payload.js";
import { go, href, useRoute } from "../lib/router.js";
import { call, listAll } from "../lib/rpc.js";
import { Button, ButtonLink, Fault, Loading, PageHead, Panel } from "../parts/basics.js";
import { say } from "../parts/dialog.js";
import { onlyOf, useOwnApps } from "../parts/filters.js";
import { LabelsField, TextField } from "../parts/form.js";
import { Params } from "../parts/params.js";
import { jobHref } from "../parts/state.js";
import { Chained } from "./jobform/chained.js";
import { faultsOf, showFaults, useCheck } from "./jobform/check.js";
import { SECTIONS } from "./jobform/fields.js";
import { read, settable, write } from "./jobform/model.js";
import { ScheduleEditor, Zones, fresh } from "./jobform/schedule.js";
import { SettingField } from "./jobform/setting.js";

const CALENDARS_MAX = 500;
const OFFERS_SHOWN = 8;

/** @param {{ app?: string, id?: string }} props without an id a new job is written */
export function JobForm({ app, id }) {
  const { query } = useRoute();
  const source = id ? `apps/${app}/jobs/${id}` : query.get("copy");
  const asked = useAsk(async () => (source
    ? /** @type {Promise<pb.Job>} */ (call("JobService/GetJob", { name: source }))
    : /** @type {pb.Job} */ ({ schedules: [fresh()] })), [source]);
  const own = useOwnApps();
  if (asked.error) return html`<${Fault} error=${asked.error} again=${asked.again} />`;
  if (!asked.value || !own.asked) return html`<${Loading} />`;
  return html`<${Editor} key=${source} from=${asked.value} name=${id ? source : ""}
    apps=${own.apps} app=${app ?? (source ? source.split("/")[1] : query.get("app") ?? "")} />`;
}

/**
 * @param {{ from: pb.Job, name: string, app: string, apps: string[] | undefined }} props
 *   `name` of a job that is there
 */
function Editor({ from, name, app: firstApp, apps }) {
  const [app, setApp] = useState(firstApp || onlyOf(apps));
  const [id, setId] = useState(name ? idOf(name) : "");
  const [job, setJob] = useState(() => settable(from));
  const [params, setParams] = useState(() => textOf(from.params) ?? "{}");
  const [unread, setUnread] = useState(/** @type {Record<string, boolean>} */ ({}));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  useEffect(() => {
    // The app comes first: handlers and calendars are those of its executors and jobs.
    if (!name) focusOn(app ? "jobId" : "parent");
  }, []);
  const handlers = useHandlers(app);
  const calendars = useAsk(askCalendars, []).value ?? [];

  const body = () => {
    const whole = { ...job, params: params.trim() ? jsonPayload(params) : undefined };
    return name
      ? { job: { ...whole, name, etag: from.etag }, updateMask: "*" }
      : { parent: `apps/${app}`, jobId: id, job: whole };
  };
  const method = `JobService/${name ? "UpdateJob" : "CreateJob"}`;
  const check = useCheck(method, body());
  const { faults, place, tried } = check;
  /** Of what is left empty nothing but that is said. @param {string} at @param {any} value */
  const needed = (at, value) => ({ at, fault: value ? place(at).fault :
    place(at).fault && t("form.needed") });
  /** @param {string[]} path @param {any} value */
  const set = (path, value) => setJob((before) => write(before, path, value));
  /** @param {string} path @param {boolean} wrong */
  const tell = (path, wrong) => setUnread((before) =>
    (Boolean(before[path]) === wrong ? before : { ...before, [path]: wrong }));
  const schedules = job.schedules ?? [];
  /** @param {pb.Schedule[]} next */
  const setSchedules = (next) => setJob((before) => ({ ...before, schedules: next }));

  /** @param {Event} event */
  const save = async (event) => {
    event.preventDefault();
    check.want();
    setError(null);
    if (Object.values(unread).some(Boolean)) return showFaults();
    setBusy(true);
    try {
      const made = /** @type {pb.Job} */ (
        await call(method, { ...body(), ...(name ? {} : { requestId: requestId() }) }));
      say(t(name ? "job.saved" : "job.made", { name: shortOf(made.name) }));
      go(jobHref(made.name ?? ""));
    } catch (fault) {
      check.take(fault);
      setError(fault);
      setBusy(false);
      showFaults();
    }
    return undefined;
  };
  const others = [...faults].filter(([path]) => path && !isShown(path, job));
  return html`<form class="job-form" onSubmit=${save} onChange=${check.leave}>
    <${PageHead} title=${name ? t("job.editTitle", { name: idOf(name) }) : t("job.new")}
      up=${name ? { href: jobHref(name), text: shortOf(name) } :
        { href: href("/jobs"), text: t("page.jobs") }} />
    <${Zones} />
    <datalist id="apps">${apps?.map((one) => html`<option key=${one} value=${one} />`)}</datalist>
    <datalist id="handlers">${(handlers ?? []).map((one) => html`<option key=${one.handler?.name}
      value=${one.handler?.name} label=${t("form.freeSlots", { n: one.freeSlots ?? 0 })}
        />`)}</datalist>
    <${Panel} title=${t("form.what")}><div class="fields">
      <${TextField} label=${t("word.app")} value=${app} change=${setApp} must list="apps"
        off=${Boolean(name)} hint=${!name && appHint(app, apps)}
        ...${needed("parent", app)} />
      <${TextField} label=${t("form.id")} value=${id} change=${setId} must mono off=${Boolean(name)}
        hint=${!name && t("form.id.hint")} ...${needed("jobId", id)} />
      <${TextField} label=${t("word.handler")} value=${job.handler ?? ""} must mono list="handlers"
        ...${needed("handler", job.handler)}
        change=${(/** @type {string} */ text) => set(["handler"], text)}
        hint=${html`<${HandlerHint} app=${app} offers=${handlers} handler=${job.handler}
          choose=${(/** @type {string} */ text) => set(["handler"], text)} />`} />
      <${TextField} label=${t("form.displayName")} value=${job.displayName ?? ""}
        ...${place("displayName")}
        change=${(/** @type {string} */ text) => set(["displayName"], text || undefined)} />
      <${TextField} label=${t("word.owner")} value=${job.owner ?? ""} hint=${t("form.owner.hint")}
        ...${place("owner")}
        change=${(/** @type {string} */ text) => set(["owner"], text || undefined)} />
      <${LabelsField} label=${t("word.labels")} value=${job.labels}
        ...${place("labels")}
        change=${(/** @type {any} */ labels) => set(["labels"], labels)}
          tell=${(/** @type {boolean} */ w) => tell("labels", w)} />
      <${TextField} label=${t("form.description")} value=${job.description ?? ""} rows=${2}
        ...${place("description")}
        change=${(/** @type {string} */ text) => set(["description"], text || undefined)} />
    </div><//>
    <${Panel} title=${t("form.when")}
      aside=${html`<${Button} icon="plus" onClick=${() => setSchedules([...schedules, fresh()])}>
      ${t("schedule.add")}<//>`}>
      ${schedules.length === 0 && html`<p class="none">${t("form.noSchedule")}</p>`}
      ${schedules.map((schedule, i) =>
        html`<${ScheduleEditor} key=${i} app=${app} schedule=${schedule} calendars=${calendars}
        since=${name ? from.createTime : undefined}
        change=${(/** @type {pb.Schedule} */ next) => setSchedules(schedules.with(i, next))}
        remove=${() => { check.forget("schedules["); setSchedules(schedules.toSpliced(i, 1)); }}
        place=${(/** @type {string} */ field) => place(`schedules[${i}].${field}`)}
        tell=${(/** @type {string} */ field, /** @type {boolean} */ w) =>
          tell(`schedules[${i}].${field}`, w)} />`)}<//>
    <${Panel}><${Params} app=${app} handler=${job.handler ?? ""} text=${params} change=${setParams}
      tell=${(/** @type {string} */ fault) => tell("params", fault !== "")} /><//>
    ${SECTIONS.map((section) =>
      html`<details class="panel fold" key=${section.id}
        open=${section.fields.some((field) => read(from, field.path) !== undefined)}>
      <summary><h2>${t(`form.${section.id}`)}</h2><span class="minor">
        ${t(`form.${section.id}.lead`)}</span></summary>
      <div class="fields">${section.fields.map((field) =>
        html`<${SettingField} key=${field.label} field=${field}
        value=${read(job, field.path)}
          change=${(/** @type {any} */ value) => set(field.path, value)}
        ...${place(field.path.join("."))}
        tell=${(/** @type {boolean} */ w) => tell(field.path.join("."), w)} />`)}</div></details>`)}
    <${Chained} job=${job} set=${set} place=${place} />
    <footer class="save">
      ${tried && others.length > 0 &&
        html`<ul class="plain field-fault">${others.map(([path, text]) =>
        html`<li key=${path}><b class="mono">${path}</b> ${text}</li>`)}</ul>`}
      ${faultsOf(error).has("") && html`<${Fault} error=${error} />`}
      <div class="row end"><span class="minor" role="status">
        ${checkWords(check, lackingOf(app, id, job))}</span>
        <${ButtonLink} href=${name ? jobHref(name) : href("/jobs")}>${t("do.cancel")}<//>
        <${Button} type="submit" kind="main" busy=${busy}>${t(name ? "do.save" : "job.create")}<//>
          </div>
    </footer></form>`;
}

/**
 * Names of fields that are still to be filled in.
 * @param {string} app
 * @param {string} id
 * @param {pb.Job} job
 */
const lackingOf = (app, id, job) => [!app && t("word.app"), !id && t("form.id"),
  !job.handler && t("word.handler")].filter(Boolean);

/** @param {ReturnType<typeof useCheck>} check @param {(string | false)[]} lacking */
function checkWords({ faults, checked, tried }, lacking) {
  const names = lacking.join(t("word.comma"));
  if (names && !tried) return t("form.lacking", { names });
  if (!checked) return t("form.checking");
  return faults.size ? t("form.faults", { n: faults.size }) : t("form.fine");
}

/** Puts the focus on a field, unless somebody is at another. @param {string} at */
const focusOn = (at) => requestAnimationFrame(() => {
  const field = document.querySelector(`[data-at="${at}"] input`);
  const idle = document.activeElement?.closest("form") === null;
  if (idle && field instanceof HTMLElement) field.focus();
});

const PLACES = ["parent", "jobId", "handler", "displayName", "owner", "labels", "description",
  "onSuccess", "onFailure",
  ...SECTIONS.flatMap((section) => section.fields.map((field) => field.path.join(".")))];

/** Whether a fault has its place at a field. @param {string} path @param {pb.Job} job */
const isShown = (path, job) => PLACES.includes(path) ||
  (job.schedules ?? []).some((_, i) => path.startsWith(`schedules[${i}].`) &&
    !path.slice(13).includes("["));

/** @param {string} app @param {string[] | undefined} apps */
function appHint(app, apps) {
  if (app || !apps) return t("form.app.hint");
  return t(apps.length ? "form.app.choose" : "form.app.first");
}

/**
 * Whether somebody runs the handler; while none is named, those to choose from.
 * @param {{
 *   app: string, offers: import("../lib/handlers.js").Offer[] | undefined,
 *   handler: string | undefined, choose: (name: string) => void,
 * }} props
 */
function HandlerHint({ app, offers, handler, choose }) {
  if (!app) return t("form.handler.app");
  if (!offers) return "";
  const offer = offers.find((one) => one.handler?.name === handler);
  if (offer) return t("form.offered", { n: offer.executors?.length ?? 0 });
  if (handler) return t("form.notOffered");
  if (offers.length === 0) return t("form.noOffers");
  const names = offers.slice(0, OFFERS_SHOWN).map((one) => one.handler?.name ?? "");
  return html`${t("form.offers")} ${names.map((one) => html`<button type="button" class="link mono"
    key=${one} onClick=${() => choose(one)}>${one}</button> `)}
    ${offers.length > names.length && t("form.offersMore", { n: offers.length - names.length })}`;
}

/** The calendars that the viewer may see. */
async function askCalendars() {
  const list = await listAll("CalendarService/ListCalendars", { parent: "apps/-" }, "calendars",
    CALENDARS_MAX);
  return /** @type {pb.Calendar[]} */ (list.items).map((one) => one.name ?? "");
}
