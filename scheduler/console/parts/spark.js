// The last runs of a job as small bars: how each ended, and how long it took.
import { html } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { SHOWN, lastOf } from "../lib/lastruns.js";
import { elapsed, shownState, toneOf } from "../lib/runs.js";
import { useStore } from "../lib/store.js";
import { instant, length, shownZone, whole } from "../lib/time.js";
import { runHref } from "./state.js";

const STEP = 7;
const HEIGHT = 22;

/** @param {{ job: string }} props */
export function JobSpark({ job }) {
  const last = useStore(lastOf(job));
  if (!last) return html`<span class="spark wait" aria-hidden="true"></span>`;
  if (last.runs.length === 0) return html`<span class="none">${t("job.neverRan")}</span>`;
  const runs = last.runs.slice(0, SHOWN).reverse();
  const now = Date.now();
  const lengths = runs.map((run) => elapsed(run, now) || 0);
  const top = Math.max(1, ...lengths);
  const skipped = SHOWN - runs.length;
  return html`<svg class="spark" width=${SHOWN * STEP} height=${HEIGHT} role="img"
    aria-label=${t("job.sparkWords",
      { n: runs.length, state: t(`state.${shownState(last.runs[0])}`) })}>
    ${runs.map((run, i) => {
      const tone = toneOf(shownState(run));
      const tall = 5 + Math.round((HEIGHT - 6) * Math.sqrt(lengths[i] / top));
      return html`<a key=${run.name} href=${runHref(run.name ?? "")} tabindex="-1">
        <rect class="spark-hit" x=${(skipped + i) * STEP} y="0" width=${STEP} height=${HEIGHT} />
        <rect class=${`spark-bar tone-${tone}`} x=${(skipped + i) * STEP + 1} y=${HEIGHT - tall}
          width=${STEP - 2} height=${tall} rx="1" /><title>${words(run, lengths[i])}</title></a>`;
    })}</svg>`;
}

/** @param {pb.Run} run @param {number} ms */
function words(run, ms) {
  const at = instant(run.startTime ?? run.fireTime ?? run.createTime);
  return [t(`state.${shownState(run)}`), whole(at, shownZone()), ms && length(ms)].filter(Boolean)
    .join(" · ");
}
