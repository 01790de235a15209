// Instants on show, and the clock that moves them.
import { html, useEffect } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { elapsed } from "../lib/runs.js";
import { store, useStore } from "../lib/store.js";
import { LOCAL_ZONE, ago, instant, length, near, shownZone, whole, zoneName } from "../lib/time.js";
import { prefs } from "../lib/prefs.js";

/** Now, moved each second while somebody looks. */
const now = store(Date.now());
let watchers = 0;
let timer = 0;

/** The present moment, each second anew. */
export function useNow() {
  useEffect(() => {
    watchers += 1;
    if (watchers === 1) timer = window.setInterval(() => now.set(Date.now()), 1000);
    return () => {
      watchers -= 1;
      if (watchers === 0) clearInterval(timer);
    };
  }, []);
  return useStore(now);
}

/**
 * An instant. Its zone is named beside it, or at the head of its list (`bare`).
 * @param {{
 *   at: string | undefined, zone?: string, bare?: boolean, rel?: boolean, next?: boolean,
 * }} props
 *   `next`: what lies ahead; when it has passed its successor is not known yet
 */
export function When({ at, zone, bare = false, rel = false, next = false }) {
  const ms = instant(at);
  if (Number.isNaN(ms)) return html`<span class="none">–</span>`;
  const shown = shownZone(zone);
  const inJobZone = prefs.get().zone === "job" && zone !== undefined;
  return html`<time datetime=${at} title=${whole(ms, shown)}>${near(ms, shown)}
    ${(!bare || inJobZone) && html`<span class="zone"> ${shortZone(shown)}</span>`}
    ${rel && html`<span class="rel"> <${Ago} ms=${ms} next=${next} /></span>`}</time>`;
}

/** @param {{ ms: number, next: boolean }} props */
function Ago({ ms, next }) {
  const at = useNow();
  return ago(next ? Math.max(ms, at) : ms);
}

/** How long something has been going on. @param {{ since: string | undefined }} props */
export function Since({ since }) {
  const ms = useNow() - instant(since);
  return Number.isNaN(ms) ? "–" : length(Math.max(0, ms));
}

/** A zone without its distance from UTC. @param {string} zone */
const shortZone = (zone) => zone.split("/").pop()?.replace(/_/g, " ") ?? zone;

/** The zone of the times in a list. */
export function ZoneNote() {
  const { zone } = useStore(prefs);
  const text = zone === "job" ? t("zone.ofJob") : zoneName(zone === "utc" ? "UTC" : LOCAL_ZONE);
  return html`<span class="zone-note">${t("zone.note", { text })}</span>`;
}

/** How long a run has taken, or takes. @param {{ run: pb.Run }} props */
export function Elapsed({ run }) {
  if (run.startTime && !run.endTime) return html`<${Since} since=${run.startTime} />`;
  return length(elapsed(run, 0));
}
