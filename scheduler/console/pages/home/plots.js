// The two plots of the home page.
import { html } from "../../lib/dom.js";
import { number, t } from "../../lib/i18n.js";
import { begin, fires, latenesses } from "../../lib/series.js";
import { length } from "../../lib/time.js";
import { Plot } from "../../parts/plot.js";

/** @param {{ pulse: import("../../lib/pulse.js").Pulse }} props */
export function FiresPlot({ pulse }) {
  const from = begin(pulse.recent.values(), pulse.since);
  const { times, all, bad, missed, failed } = fires(pulse.recent.values(), from, Date.now());
  const sum = (/** @type {number[]} */ of) => of.reduce((a, b) => a + b, 0);
  const words = t("home.firesWords", { all: sum(all), bad: sum(bad) });
  return html`<${Plot} label=${words} times=${times} values=${[all, bad, failed]}
    told=${[all, missed, failed]} unit=${number}
    lines=${[
      { label: t("plot.fires"), colour: "--ok", bars: true },
      { label: t("plot.missed"), colour: "--late", bars: true },
      { label: t("plot.failed"), colour: "--bad", bars: true },
    ]} />`;
}

/** @param {{ pulse: import("../../lib/pulse.js").Pulse }} props */
export function LatenessPlot({ pulse }) {
  const from = begin(pulse.recent.values(), pulse.since);
  const { times, median, worst } = latenesses(pulse.recent.values(), from, Date.now());
  const top = Math.max(0, ...worst.map((ms) => ms ?? 0));
  return html`<${Plot} label=${t("home.latenessWords", { text: length(top) })} times=${times}
    values=${[worst, median]} unit=${length} lines=${[
      { label: t("plot.worst"), colour: "--late", fill: true },
      { label: t("plot.median"), colour: "--run" },
    ]} />`;
}
