// A run by hand: with what, where and when.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { useAsk } from "../../lib/list.js";
import { allOf, appOf, idOf, quoted, requestId } from "../../lib/names.js";
import { jsonPayload, textOf } from "../../lib/payload.js";
import { call, listAll } from "../../lib/rpc.js";
import { zoneOf } from "../../lib/schedules.js";
import { shownZone, wallClock, zoneName } from "../../lib/time.js";
import { Ask, say } from "../../parts/dialog.js";
import { valueOf } from "../../parts/form.js";
import { Params } from "../../parts/params.js";
import { runHref } from "../../parts/state.js";

/** @param {{ job: pb.Job, close: () => void }} props */
export function Trigger({ job, close }) {
  const name = job.name ?? "";
  const given = textOf(job.params) ?? "";
  const [text, setText] = useState(given);
  const [fault, setFault] = useState("");
  const [executor, setExecutor] = useState("");
  const [at, setAt] = useState("");
  const zone = shownZone(zoneOf(job));
  const executors = useAsk(() => offering(job), [name]).value ?? [];
  const act = async () => {
    const ms = wallClock(at, zone);
    /** @type {pb.Run} */
    const run = await call("JobService/TriggerJob", {
      name,
      params: text === given ? undefined : jsonPayload(text),
      executor,
      runTime: at && !Number.isNaN(ms) ? new Date(ms).toISOString() : undefined,
      requestId: requestId(),
    });
    say(t("job.triggered", { name: idOf(name) }), { href: runHref(run.name ?? "") });
  };
  return html`<${Ask} title=${t("job.triggerTitle", { name: idOf(name) })} verb=${t("do.trigger")}
    wide
    close=${close} act=${act} off=${fault !== ""}>
    <${Params} app=${appOf(name)} handler=${job.handler ?? ""} text=${text} change=${setText}
      tell=${setFault} />
    <div class="fields">
      <label class="field"><span>${t("word.executor")}</span>
        <select value=${executor} onChange=${(/** @type {Event} */ e) => setExecutor(valueOf(e))}>
          <option value="">${t("trigger.any")}</option>
          ${executors.map((one) =>
            html`<option key=${one.name} value=${one.name}>${idOf(one.name)}</option>`)}</select>
              </label>
      <label class="field"><span>${t("trigger.at")} <small>${zoneName(zone)}</small></span>
        <input type="datetime-local" step="1" value=${at}
          onInput=${(/** @type {Event} */ e) => setAt(valueOf(e))} /></label>
    </div><//>`;
}

/** Connected executors that offer the job's handler. @param {pb.Job} job */
async function offering(job) {
  const filter = allOf(`handler = ${quoted(job.handler ?? "")}`, "NOT state = OFFLINE");
  const body = { parent: `apps/${appOf(job.name ?? "")}`, filter };
  const list = await listAll("FleetService/ListExecutors", body, "executors", 1000);
  return /** @type {pb.Executor[]} */ (list.items);
}
