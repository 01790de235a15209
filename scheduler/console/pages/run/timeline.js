// The attempts of a run against time, and what happened in words.
import { html } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { idOf } from "../../lib/names.js";
import { clockOf, dateOf, length, shownZone, whole } from "../../lib/time.js";
import { told } from "../../lib/told.js";
import { beginOf, happenings, spans } from "../../lib/timeline.js";
import { Told } from "../../parts/person.js";
import { ExecutorLink } from "../../parts/state.js";
import { useNow } from "../../parts/when.js";

/** A bar shorter than this has no room for words. */
const WORDS_SHARE = 0.09;

/** @param {{ run: pb.Run, zone: string }} props */
export function Timeline({ run, zone }) {
  const now = useNow();
  const rows = spans(run, now);
  const all = rows.flatMap((row) => row.spans);
  const from = Math.min(...all.map((span) => span.from));
  const to = Math.max(from + 1, ...all.map((span) => span.to));
  const share = (/** @type {number} */ ms) => `${(100 * ms) / (to - from)}%`;
  return html`<div class="timeline">
    ${rows.length > 0 && html`<div class="bars" role="img"
      aria-label=${t("timeline.bars", { n: rows.length, text: length(to - from) })}>
      ${rows.map((row, i) => html`<div class="bar-row" key=${i}>
        <span class="bar-name">${row.number} <span class="of">${idOf(row.executor)}</span></span>
        <span class="bar">${row.spans.map((span) => html`<span key=${span.from + span.kind}
          class=${`span ${span.kind} tone-${span.tone}`}
            title=${`${t(`span.${span.kind}`)} ${length(span.to - span.from)}`}
          style=${{ left: share(span.from - from), width: share(span.to - span.from) }}>
          ${(span.to - span.from) / (to - from) > WORDS_SHARE &&
            html`<span>${length(span.to - span.from)}</span>`}</span>`)}</span></div>`)}
      <div class="bar-row"><span></span><span class="bar-ends"><span>
        ${clockOf(from, shownZone(zone))}</span>
        <span>${length(to - from)}</span><span>${clockOf(to, shownZone(zone))}</span></span></div>
      <div class="bar-key">${["wait", "sent", "run"].map((kind) =>
        html`<span key=${kind}><i class=${`span ${kind}`}></i>${t(`span.${kind}`)}</span>`)}</div>
          </div>`}
    <${Happenings} run=${run} zone=${shownZone(zone)} /></div>`;
}

/** @param {{ run: pb.Run, zone: string }} props */
function Happenings({ run, zone }) {
  const all = happenings(run);
  const start = beginOf(run);
  const day = dateOf(start, zone);
  return html`<ol class="happenings">
    ${all.map((one, i) => html`<li key=${i} class=${`tone-${one.tone ?? "plain"}`}>
    <time title=${whole(one.at, zone)}>
      ${dateOf(one.at, zone) === day ? "" :
        `${dateOf(one.at, zone).slice(5)} `}${clockOf(one.at, zone)}</time>
    <span class="num">${one.at === start ? "" :
      `${one.at > start ? "+" : ""}${length(one.at - start)}`}</span>
    <span><${Told} text=${words(one, run)} /> ${one.executor && one.kind === "sent" &&
      html`<${ExecutorLink} name=${one.executor} />`}
      ${one.failure &&
        html`<span class="minor"> ${one.failure.code}: ${told(one.failure.message)}</span>`}</span>
  </li>`)}</ol>`;
}

/** @param {import("../../lib/timeline.js").Happening} one @param {pb.Run} run */
function words(one, run) {
  const outcome = one.values.outcome;
  const values = outcome ? { ...one.values, outcome: t(`state.${outcome}`) } : one.values;
  if (one.kind === "created") return t(values.by ? "timeline.createdBy" : "timeline.created",
    values);
  if (one.kind === "over" && run.killReason) {
    return t("timeline.killed", { why: t(`kill.${run.killReason.replace("KILL_REASON_", "")}`) });
  }
  return t(`timeline.${one.kind}`, values);
}
