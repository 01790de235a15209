// A schedule in words and dates, as the scheduler reads it.
import { html, useEffect, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { call } from "../lib/rpc.js";
import { ago, clockOf, dateOf, instant, knowsZone, weekday, zoneName } from "../lib/time.js";
import { told, toldSchedule } from "../lib/told.js";
import { Fault } from "./basics.js";
import { Icon } from "./icon.js";

const TYPING_MS = 250;

/**
 * @param {{
 *   app: string, schedule: pb.Schedule, count?: number, quiet?: boolean,
 *   tell?: (answer: pb.PreviewScheduleResponse | null) => void,
 * }} props `quiet`: faults are shown elsewhere
 */
export function Preview({ app, schedule, count = 6, quiet, tell }) {
  const [answer, setAnswer] = useState(/** @type {pb.PreviewScheduleResponse | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const asked = JSON.stringify(schedule);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      const parent = app ? `apps/${app}` : "";
      try {
        /** @type {pb.PreviewScheduleResponse} */
        const got = await call("JobService/PreviewSchedule", { parent, schedule, count },
          stop.signal)
          .catch((fault) => {
            // An app that is not there yet: seen from all apps.
            if (fault.code !== "not_found") throw fault;
            return call("JobService/PreviewSchedule", { schedule, count }, stop.signal);
          });
        setAnswer(got);
        setError(null);
        tell?.(got);
      } catch (fault) {
        if (stop.signal.aborted) return;
        setAnswer(null);
        setError(fault);
        tell?.(null);
      }
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [app, asked, count]);
  if (error) return quiet ? null : html`<${Fault} error=${error} />`;
  if (!answer) return html`<div class="preview"></div>`;
  const { description, warnings = [], fireTimes = [], cronDialect = "" } = answer;
  const zone = schedule.timeZone || "UTC";
  const dialect = cronDialect.replace("CRON_DIALECT_", "");
  return html`<div class="preview" aria-live="polite">
    <p class="preview-words">${toldSchedule(description)}
      ${dialect && dialect !== "UNSPECIFIED" &&
        html` <span class="tag">${t(`dialect.${dialect}`)}</span>`}</p>
    ${warnings.map((warning) =>
      html`<p key=${warning} class="field-note"><${Icon} name="warn" size=${13} />
        ${told(warning)}</p>`)}
    ${fireTimes.length === 0
      ? html`<p class="none">${t(schedule.delay ? "preview.delay" : "preview.none")}</p>`
      : html`<p class="minor">${t("zone.note",
        { text: knowsZone(zone) ? zoneName(zone) : zone })}</p>
        <ol class="fires">${fireTimes.map((at) =>
          html`<${Fire} key=${at} at=${at} zone=${knowsZone(zone) ? zone : "UTC"} />`)}</ol>`}
  </div>`;
}

/** @param {{ at: string, zone: string }} props */
const Fire = ({ at, zone }) => {
  const ms = instant(at);
  return html`<li><time datetime=${at}><span class="of">
    ${weekday(ms, zone)}</span> ${dateOf(ms, zone)}
    <b>${clockOf(ms, zone)}</b></time> <span class="rel">${ago(ms)}</span></li>`;
};
