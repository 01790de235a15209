// Plots over time.
import { html, useEffect, useRef } from "../lib/dom.js";
import { prefs } from "../lib/prefs.js";
import { useStore } from "../lib/store.js";
import { clockOf, shownZone } from "../lib/time.js";
import uPlot from "../vendor/uplot.js";

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {string} colour name of the custom property
 * @property {boolean} [bars]
 * @property {boolean} [fill]
 */

/**
 * @param {{
 *   label: string, times: number[], lines: Line[], values: (number | null)[][],
 *   unit: (value: number) => string, height?: number, told?: (number | null)[][],
 * }} props `label` says in words what the plot shows; `told` are the numbers beside the legend,
 *   where a bar that stands behind another is drawn higher than it counts
 */
export function Plot({ label, times, lines, values, unit, height = 150, told = values }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const { theme, lang, zone } = useStore(prefs);
  const data = /** @type {uPlot.AlignedData} */ ([times, ...values]);
  const latest = useRef({ data, unit, told });
  latest.current = { data, unit, told };

  useEffect(() => {
    const at = box.current;
    if (!at) return undefined;
    const made = new uPlot(options(at, lines, latest, height), data, at);
    plot.current = made;
    const sized = new ResizeObserver(() => {
      if (at.clientWidth > 0) made.setSize({ width: at.clientWidth, height });
    });
    sized.observe(at);
    return () => {
      sized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme, lang, zone, document.documentElement.dataset.theme]);
  useEffect(() => plot.current?.setData(latest.current.data));
  return html`<div class="plot" role="img" aria-label=${label}><div ref=${box}></div></div>`;
}

/**
 * @param {HTMLElement} at
 * @param {Line[]} lines
 * @param {{ current: { unit: (value: number) => string, told: (number | null)[][] } }} latest
 * @param {number} height
 * @returns {uPlot.Options}
 */
function options(at, lines, latest, height) {
  const style = getComputedStyle(at);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(name).trim();
  const unit = (/** @type {number} */ value) => latest.current.unit(value);
  // Without a pointer nothing is told.
  /** @param {number} line @param {number | null} i */
  const valueAt = (line, i) => {
    const value = i === null ? null : latest.current.told[line]?.[i];
    return value === null || value === undefined ? "" : unit(value);
  };
  const zone = shownZone();
  const font = `11px ${style.fontFamily}`;
  const axis = { stroke: colour("--ink-3"), font, ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  /** @param {number} s */
  const clock = (s) => clockOf(s * 1000, zone).slice(0, 5);
  return {
    width: Math.max(200, at.clientWidth),
    height,
    padding: [10, 18, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, all) => all.map(clock), space: 70 },
      {
        ...axis,
        grid,
        size: 52,
        values: (_, all) => all.map((v) => (v === null ? "" : unit(v))),
        space: 34,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 6e4, 12e4, 3e5, 6e5,
          36e5],
      },
    ],
    series: [
      { value: (_, s) => (s === null ? "–" : clock(s)) },
      ...lines.map((line, at) => ({
        label: line.label,
        stroke: colour(line.colour),
        fill: line.bars || line.fill ? colour(`${line.colour}${line.bars ? "" : "-soft"}`) :
          undefined,
        width: line.bars ? 0 : 1.5,
        // A value without neighbours would not be seen as a line.
        points: { show: !line.bars, size: 3, fill: colour(line.colour) },
        paths: line.bars ? uPlot.paths.bars?.({ size: [0.72, 28] }) : undefined,
        value: (/** @type {uPlot} */ _, /** @type {number} */ __, /** @type {number} */ ___,
          /** @type {number | null} */ i) => valueAt(at, i),
      })),
    ],
  };
}
