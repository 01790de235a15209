// The first line of the home page, and what it rests on.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { LOCAL_ZONE, length, near, shownZone, whole } from "../../lib/time.js";
import { Icon } from "../../parts/icon.js";
import { Told } from "../../parts/person.js";
import { useNow } from "../../parts/when.js";

const SHOWN = 6;

/**
 * @param {{
 *   pulse: import("../../lib/pulse.js").Pulse,
 *   found: import("./findings.js").Finding[] | undefined,
 * }} props
 */
export function Verdict({ pulse, found }) {
  const [all, setAll] = useState(false);
  const tone = !found ? "plain" : found.some((one) => one.tone === "bad") ? "bad"
    : found.length ? "late" : "ok";
  const shown = all ? found : found?.slice(0, SHOWN);
  return html`<section class=${`verdict tone-${tone}`} aria-live="polite">
    <div class="verdict-head">
      <span class="verdict-sign">
        <${Icon} name=${tone === "plain" ? "run" : tone === "ok" ? "ok" : "warn"} size=${22} />
          </span>
      <h1>${!found ? t("home.looking") : found.length ? t("home.found", { n: found.length }) :
        t("home.well")}</h1>
      <${Live} pulse=${pulse} />
    </div>
    ${shown && shown.length > 0 &&
      html`<ol class="findings">${shown.map((one) => html`<li key=${one.id}>
      <a href=${one.to} class=${`finding tone-${one.tone}`}>
        <span class="finding-what">${one.what}</span>
        ${one.why && html`<span class="finding-why"><${Told} text=${one.why} /></span>`}
        ${one.since && html`<${SinceNote} ms=${one.since} />`}</a></li>`)}</ol>`}
    ${found && found.length > SHOWN && html`<button type="button" class="link"
      onClick=${() => setAll(!all)}>
        ${all ? t("home.fewer") : t("home.others", { n: found.length - SHOWN })}</button>`}
  </section>`;
}

/** @param {{ ms: number }} props */
function SinceNote({ ms }) {
  const zone = shownZone();
  const text = length(Math.max(1000, Math.floor((useNow() - ms) / 1000) * 1000));
  return html`<span class="finding-since" title=${whole(ms, zone)}>
    ${t("home.since", { at: near(ms, zone), text })}</span>`;
}

/** Whether what is shown is of now. @param {{ pulse: import("../../lib/pulse.js").Pulse }} props */
function Live({ pulse }) {
  const now = useNow();
  if (pulse.line === "waiting") {
    const at = pulse.heardAt ? whole(pulse.heardAt, LOCAL_ZONE) : "–";
    return html`<span class="live off" role="alert">${t("home.cutOff", { at })}</span>`;
  }
  return html`<span class="live" title=${whole(now, shownZone())}>
    <span class="live-dot" aria-hidden="true"></span>
      ${t(pulse.line === "open" ? "home.live" : "home.joining")}</span>`;
}
