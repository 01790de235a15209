// How much of something is taken.
import { html } from "../lib/dom.js";
import { number, t } from "../lib/i18n.js";

/**
 * The slots of an executor that are in use; of one that is not connected nobody knows.
 * @param {{ of: pb.Executor }} props
 */
export const Slots = ({ of: one }) => (one.state === "STATE_OFFLINE"
  ? html`<span class="none">–</span>`
  : html`<${Meter} value=${(one.slots ?? 0) - (one.freeSlots ?? 0)} max=${one.slots ?? 0}
    label=${t("executor.slots")} />`);

/** @param {{ value: number, max: number, label: string, text?: string }} props */
export function Meter({ value, max, label, text }) {
  const share = max > 0 ? Math.min(1, Math.max(0, value / max)) : 0;
  const words = text ?? `${number(value)} / ${number(max)}`;
  return html`<span class="meter" role="meter" aria-label=${label} aria-valuenow=${value}
    aria-valuemin="0" aria-valuemax=${max} aria-valuetext=${words}>
    <span class="meter-bar"><span class=${share >= 0.9 ? "full" : ""}
      style=${{ width: `${Math.round(share * 100)}%` }}></span></span>
    <span class="meter-text">${words}</span></span>`;
}
