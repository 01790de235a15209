// Runs for fire times that have passed.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { appOf, idOf, requestId } from "../../lib/names.js";
import { href } from "../../lib/router.js";
import { call } from "../../lib/rpc.js";
import { zoneOf } from "../../lib/schedules.js";
import { instant, shownZone, wallClock, wallText, zoneName } from "../../lib/time.js";
import { Button, Fault } from "../../parts/basics.js";
import { valueOf } from "../../parts/form.js";
import { Ask, say } from "../../parts/dialog.js";

const SECOND_MS = 1000;

/**
 * The backfill of what a run says was missed; the end of a range is no part of it.
 * @param {pb.Run} run
 */
export function backfillHref(run) {
  const last = instant(run.missedUntilTime ?? run.fireTime);
  return href(["jobs", appOf(run.job ?? ""), idOf(run.job)],
    { from: run.fireTime, to: new Date(last + SECOND_MS).toISOString() });
}

/**
 * @param {{ job: pb.Job, range: URLSearchParams, close: () => void }} props
 *   `range`: `from` and `to` to begin with
 */
export function Backfill({ job, range, close }) {
  const zone = shownZone(zoneOf(job));
  const begin = (/** @type {string} */ end) => {
    const ms = instant(range.get(end) ?? undefined);
    return Number.isNaN(ms) ? "" : wallText(ms, zone);
  };
  const [from, setFrom] = useState(begin("from"));
  const [to, setTo] = useState(begin("to"));
  const [counted, setCounted] = useState(/** @type {pb.BackfillJobResponse | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  /** @param {string} text */
  const iso = (text) => {
    const ms = wallClock(text, zone);
    return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
  };
  /** @param {object} more @returns {Promise<pb.BackfillJobResponse>} */
  const ask = (more) =>
    call("JobService/BackfillJob",
      { name: job.name, startTime: iso(from), endTime: iso(to), ...more });
  const count = async () => {
    setError(null);
    setCounted(await ask({ validateOnly: true }).catch((fault) => (setError(fault), null)));
  };
  const act = async () => {
    const made = await ask({ requestId: requestId() });
    say(t("backfill.made", { n: made.runCount ?? 0 }));
  };
  return html`<${Ask} title=${t("backfill.title", { name: idOf(job.name) })}
    lead=${t("backfill.lead")}
    verb=${t("backfill.do")} close=${close} act=${act} off=${!counted?.runCount}>
    <div class="fields">
      <label class="field"><span>${t("backfill.from")} <small>${zoneName(zone)}</small></span>
        <input type="datetime-local" step="1" value=${from}
          onInput=${(/** @type {Event} */ e) => { setCounted(null); setFrom(valueOf(e)); }} />
            </label>
      <label class="field"><span>${t("backfill.to")}</span>
        <input type="datetime-local" step="1" value=${to}
          onInput=${(/** @type {Event} */ e) => { setCounted(null); setTo(valueOf(e)); }} /></label>
    </div>
    <div class="row"><${Button} onClick=${count} disabled=${!from || !to}>${t("backfill.count")}<//>
      ${counted && html`<span>${t("backfill.counted",
        { n: counted.runCount ?? 0, had: counted.alreadyRunCount ?? 0 })}</span>`}</div>
    <${Fault} error=${error} /><//>`;
}
