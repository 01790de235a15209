// A pause, until somebody resumes the job or to a given time.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { idOf } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { zoneOf } from "../../lib/schedules.js";
import { shownZone, wallClock, zoneName } from "../../lib/time.js";
import { Ask } from "../../parts/dialog.js";
import { valueOf } from "../../parts/form.js";

/** @param {{ job: pb.Job, close: () => void, again: () => void }} props */
export function Pause({ job, close, again }) {
  const [until, setUntil] = useState("");
  const [reason, setReason] = useState("");
  const zone = shownZone(zoneOf(job));
  const act = async () => {
    const ms = wallClock(until, zone);
    const untilTime = until && !Number.isNaN(ms) ? new Date(ms).toISOString() : undefined;
    await call("JobService/PauseJob", { name: job.name, reason, untilTime });
    again();
  };
  return html`<${Ask} title=${t("pause.title", { name: idOf(job.name) })} lead=${t("pause.lead")}
    verb=${t("do.pause")} close=${close} act=${act}>
    <label class="field"><span>${t("pause.until")} <small>${zoneName(zone)}</small></span>
      <input type="datetime-local" value=${until}
        onInput=${(/** @type {Event} */ e) => setUntil(valueOf(e))} /></label>
    <label class="field"><span>${t("word.reason")}</span>
      <input value=${reason} maxlength="256"
        onInput=${(/** @type {Event} */ e) => setReason(valueOf(e))} /></label><//>`;
}
