// The jobs that start when a run has ended.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { useAsk } from "../../lib/list.js";
import { quoted, shortOf } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { ReadField, valueOf } from "../../parts/form.js";

const FOUND_MAX = 20;

/** @param {string} text "app/job" with commas between */
function readJobs(text) {
  const names = text.split(/[\s,]+/).filter(Boolean);
  if (names.some((name) => name.split("/").length !== 2 &&
    !name.startsWith("apps/"))) return undefined;
  return names.map((name) =>
    (name.startsWith("apps/") ? name : `apps/${name.replace("/", "/jobs/")}`));
}
/** @param {string[] | undefined} names */
const writeJobs = (names) => (names ?? []).map(shortOf).join(", ");

/**
 * @param {{
 *   job: pb.Job, set: (path: string[], value: any) => void,
 *   place: (path: string) => { at: string, fault?: string },
 * }} props
 */
export function Chained({ job, set, place }) {
  const [typed, setTyped] = useState("");
  const word = typed.split(/[\s,/]+/).pop() ?? "";
  const found = useAsk(async () => {
    /** @type {pb.ListJobsResponse} */
    const page = await call("JobService/ListJobs", { parent: "apps/-", pageSize: FOUND_MAX,
      filter: word ? `name : ${quoted(word)}` : "" });
    return page.jobs ?? [];
  }, ["", word]).value ?? [];
  const open = Boolean(job.onSuccess?.length || job.onFailure?.length);
  /** @param {Event} event */
  const onInput = (event) => setTyped(valueOf(event));
  return html`<details class="panel fold" open=${open}>
    <summary><h2>${t("form.chained")}</h2><span class="minor">${t("form.chained.lead")}</span>
      </summary>
    <datalist id="jobs">${found.map((one) =>
      html`<option key=${one.name} value=${shortOf(one.name)} />`)}</datalist>
    <div class="fields" onInput=${onInput}>
      ${["onSuccess", "onFailure"].map((field) => html`<${ReadField} key=${field}
      label=${t(`form.${field}`)} value=${/** @type {any} */ (job)[field]} list="jobs"
        placeholder="billing/report"
      change=${(/** @type {any} */ names) => set([field], names?.length ? names : undefined)}
      read=${readJobs} write=${writeJobs} wrong=${t("form.badJobs")}
      ...${place(field)} />`)}</div></details>`;
}
