// A job: written anew, copied or changed. The scheduler itself checks it as it is typed.
import { html, useEffect, useRef, useState } from "../lib/dom.js";
import { useHandlers } from "../lib/handlers.js";
import { t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { idOf, requestId, shortOf } from "../lib/names.js";
import { jsonPayload, textOf } from "../lib/payload.js";
import { go, href, useRoute } from "../lib/router.js";
import { call, listAll } from "../lib/rpc.js";
import { Button, ButtonLink, Fault, Loading, PageHead, Panel } from "../parts/basics.js";
import { say } from "../parts/dialog.js";
import { useApps } from "../parts/filters.js";
import { LabelsField, TextField } from "../parts/form.js";
import { Params } from "../parts/params.js";
import { jobHref } from "../parts/state.js";
import { Chained } from "./jobform/chained.js";
import { SECTIONS } from "./jobform/fields.js";
import { pathOf, read, settable, write } from "./jobform/model.js";
import { ScheduleEditor, Zones, fresh } from "./jobform/schedule.js";
import { SettingField } from "./jobform/setting.js";

const TYPING_MS = 400;
const CALENDARS_MAX = 500;

/** @param {{ app?: string, id?: string }} props without an id a new job is written */
export function JobForm({ app, id }) {
  const { query } = useRoute();
  const source = id ? `apps/${app}/jobs/${id}` : query.get("copy");
  const asked = useAsk(async () => (source
    ? /** @type {Promise<pb.Job>} */ (call("JobService/GetJob", { name: source }))
    : /** @type {pb.Job} */ ({ schedules: [fresh()] })), [source]);
  if (asked.error) return html`<${Fault} error=${asked.error} again=${asked.again} />`;
  if (!asked.value) return html`<${Loading} />`;
  return html`<${Editor} key=${source} from=${asked.value} name=${id ? source : ""}
    app=${app ?? (source ? source.split("/")[1] : query.get("app") ?? "")} />`;
}

/** @param {{ from: pb.Job, name: string, app: string }} props `name` of a job that is there */
function Editor({ from, name, app: firstApp }) {
  const [app, setApp] = useState(firstApp);
  const [id, setId] = useState(name ? idOf(name) : "");
  const [job, setJob] = useState(() => settable(from));
  const [params, setParams] = useState(() => textOf(from.params) ?? "{}");
  const [unread, setUnread] = useState(/** @type {Record<string, boolean>} */ ({}));
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const apps = useApps();
  useEffect(() => {
    if (!app && apps.length === 1) setApp(apps[0]);
  }, [apps.length]);
  const handlers = useHandlers(app);
  const calendars = useAsk(askCalendars, []).value ?? [];

  const body = () => {
    const whole = { ...job, params: params.trim() ? jsonPayload(params) : undefined };
    return name
      ? { job: { ...whole, name, etag: from.etag }, updateMask: "*" }
      : { parent: `apps/${app}`, jobId: id, job: whole };
  };
  const method = `JobService/${name ? "UpdateJob" : "CreateJob"}`;
  const { faults, checked } = useCheck(method, body());
  /** @param {string} path @param {any} value */
  const faultAt = (path, value) => {
    const said = faults.get(path);
    const typed = value !== undefined && value !== "";
    return said && (tried || typed) ? said : undefined;
  };
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
    setTried(true);
    setError(null);
    if (Object.values(unread).some(Boolean)) return;
    setBusy(true);
    try {
      const made = /** @type {pb.Job} */ (
        await call(method, { ...body(), ...(name ? {} : { requestId: requestId() }) }));
      say(t(name ? "job.saved" : "job.made", { name: shortOf(made.name) }));
      go(jobHref(made.name ?? ""));
    } catch (fault) {
      setError(fault);
      setBusy(false);
      requestAnimationFrame(() =>
        document.querySelector(".field.wrong, .fault")?.scrollIntoView({ block: "center" }));
    }
  };
  const others = [...faults].filter(([path]) => !isShown(path, job));
  return html`<form class="job-form" onSubmit=${save}>
    <${PageHead} title=${name ? t("job.editTitle", { name: idOf(name) }) : t("job.new")}
      up=${name ? { href: jobHref(name), text: shortOf(name) } :
        { href: href("/jobs"), text: t("page.jobs") }} />
    <${Zones} />
    <datalist id="apps">${apps.map((one) => html`<option key=${one} value=${one} />`)}</datalist>
    <datalist id="handlers">${(handlers ?? []).map((one) => html`<option key=${one.handler?.name}
      value=${one.handler?.name} label=${t("form.freeSlots", { n: one.freeSlots ?? 0 })}
        />`)}</datalist>
    <${Panel} title=${t("form.what")}><div class="fields">
      <${TextField} label=${t("word.app")} value=${app} change=${setApp} must list="apps"
        off=${Boolean(name)}
        hint=${t("form.app.hint")} fault=${faultAt("parent", app)} />
      <${TextField} label=${t("form.id")} value=${id} change=${setId} must mono off=${Boolean(name)}
        hint=${t("form.id.hint")} fault=${faultAt("jobId", id)} />
      <${TextField} label=${t("word.handler")} value=${job.handler ?? ""} must mono list="handlers"
        change=${(/** @type {string} */ text) => set(["handler"], text)}
          fault=${faultAt("handler", job.handler)}
        hint=${handlerHint(handlers, job.handler)} />
      <${TextField} label=${t("form.displayName")} value=${job.displayName ?? ""}
        fault=${faultAt("displayName", job.displayName)}
        change=${(/** @type {string} */ text) => set(["displayName"], text || undefined)} />
      <${TextField} label=${t("word.owner")} value=${job.owner ?? ""} hint=${t("form.owner.hint")}
        fault=${faultAt("owner", job.owner)}
        change=${(/** @type {string} */ text) => set(["owner"], text || undefined)} />
      <${LabelsField} label=${t("word.labels")} value=${job.labels}
        fault=${faultAt("labels", job.labels)}
        change=${(/** @type {any} */ labels) => set(["labels"], labels)}
          tell=${(/** @type {boolean} */ w) => tell("labels", w)} />
      <${TextField} label=${t("form.description")} value=${job.description ?? ""} rows=${2}
        fault=${faultAt("description", job.description)}
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
        remove=${() => setSchedules(schedules.toSpliced(i, 1))}
        faultOf=${(/** @type {string} */ field) => faultAt(`schedules[${i}].${field}`, "typed")}
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
        fault=${faultAt(field.path.join("."), read(job, field.path))}
        tell=${(/** @type {boolean} */ w) => tell(field.path.join("."), w)} />`)}</div></details>`)}
    <${Chained} job=${job} set=${set} faultAt=${faultAt} />
    <footer class="save">
      ${tried && others.length > 0 &&
        html`<ul class="plain field-fault">${others.map(([path, text]) =>
        html`<li key=${path}>${path ? html`<b class="mono">${path}</b> ` : ""}${text}</li>`)}</ul>`}
      ${faults.size === 0 || !tried ? html`<${Fault} error=${error} />` : null}
      <div class="row end"><span class="minor" role="status">
        ${checkWords(faults.size, checked)}</span>
        <${ButtonLink} href=${name ? jobHref(name) : href("/jobs")}>${t("do.cancel")}<//>
        <${Button} type="submit" kind="main" busy=${busy}>${t(name ? "do.save" : "job.create")}<//>
          </div>
    </footer></form>`;
}

/** @param {number} faults @param {boolean} checked */
const checkWords = (faults, checked) =>
  !checked ? t("form.checking") : faults ? t("form.faults", { n: faults }) : t("form.fine");

/**
 * What the scheduler says to the job as it stands, shortly after each change.
 * @param {string} method
 * @param {object} body
 */
function useCheck(method, body) {
  const [state, setState] = useState(
    { faults: /** @type {Map<string, string>} */ (new Map()), of: "" });
  const asked = JSON.stringify(body);
  const latest = useRef(asked);
  latest.current = asked;
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        await call(method, { ...JSON.parse(asked), validateOnly: true }, stop.signal);
        setState({ faults: new Map(), of: asked });
      } catch (fault) {
        if (stop.signal.aborted) return;
        const { fields = [], message, code } = /** @type {import("../lib/rpc.js").RpcError} */ (
          fault);
        const found = fields.map(({ field, description }) =>
          /** @type {[string, string]} */ ([pathOf(field), description]));
        const plain = code === "already_exists" ? [["jobId", message]] : [["", message]];
        setState({ faults: new Map(
          /** @type {[string, string][]} */ (found.length ? found : plain)), of: asked });
      }
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [asked]);
  return { faults: state.faults, checked: state.of === asked };
}

const PLACES = ["parent", "jobId", "handler", "displayName", "owner", "labels", "description",
  "onSuccess", "onFailure",
  ...SECTIONS.flatMap((section) => section.fields.map((field) => field.path.join(".")))];

/** Whether a fault has its place at a field. @param {string} path @param {pb.Job} job */
const isShown = (path, job) => PLACES.includes(path) ||
  (job.schedules ?? []).some((_, i) => path.startsWith(`schedules[${i}].`) &&
    !path.slice(13).includes("["));

/**
 * @param {import("../lib/handlers.js").Offer[] | undefined} offers
 * @param {string | undefined} handler
 */
function handlerHint(offers, handler) {
  if (!offers) return "";
  const offer = offers.find((one) => one.handler?.name === handler);
  if (offer) return t("form.offered", { n: offer.executors?.length ?? 0 });
  return handler ? t("form.notOffered") : t("form.handler.hint", { n: offers.length });
}

/** The calendars that the viewer may see. */
async function askCalendars() {
  const list = await listAll("CalendarService/ListCalendars", { parent: "apps/-" }, "calendars",
    CALENDARS_MAX);
  return /** @type {pb.Calendar[]} */ (list.items).map((one) => one.name ?? "");
}
