// States and what goes with them: always a sign and a word, never a colour alone.
import { cls, html } from "../lib/dom.js";
import { number, t } from "../lib/i18n.js";
import { href } from "../lib/router.js";
import { missedTimes, shownState, toneOf } from "../lib/runs.js";
import { appOf, idOf } from "../lib/names.js";
import { Icon } from "./icon.js";

/** The state of a run; of missed fire times, how many. @param {{ run: pb.Run }} props */
export function RunState({ run }) {
  const word = shownState(run);
  const tone = toneOf(word);
  const missed = missedTimes(run);
  return html`<span class=${cls("state", `tone-${tone}`, word === "RUNNING" && "is-live")}>
    <${Icon} name=${tone} size=${13} /><span>${t(`state.${word}`)}</span>
    ${missed > 1 && html`<span>×${number(missed)}</span>`}</span>`;
}

/** @type {Record<string, string>} */
const TONES = {
  ACTIVE: "ok",
  ONLINE: "ok",
  PAUSED: "late",
  SUSPECT: "late",
  DRAINING: "wait",
  EXPIRED: "off",
  OFFLINE: "off",
  GONE: "lost",
};
/** @type {Record<string, string>} */
const SIGNS = { PAUSED: "pause", SUSPECT: "lost", DRAINING: "out", EXPIRED: "off", OFFLINE: "off",
  GONE: "lost" };

/** The state of a job, executor or node. @param {{ state: string | undefined }} props */
export function Life({ state = "" }) {
  const word = state.replace("STATE_", "") || "ACTIVE";
  return html`<span class=${`state tone-${TONES[word] ?? "off"}`}>
    <${Icon} name=${SIGNS[word] ?? "ok"} size=${13} /><span>${t(`life.${word}`)}</span>
  </span>`;
}

/** Labels as tags. @param {{ labels: Record<string, string> | undefined }} props */
export const Labels = ({ labels = {} }) =>
  Object.entries(labels).map(([key, value]) =>
    html`<span class="tag label" key=${key}><b>${key}</b>
      ${value && html`<span>${value}</span>`}</span>`);

/**
 * A job by name, leading to its page.
 * @param {{ name: string | undefined, app?: boolean }} props
 */
export const JobLink = ({ name = "", app = true }) =>
  html`<a class="name" href=${jobHref(name)}>
    ${app && html`<span class="of">${appOf(name)}/</span>`}${idOf(name)}</a>`;

/** A run by name, leading to its page. @param {{ name: string | undefined }} props */
export const RunLink = ({ name = "" }) =>
  html`<a class="mono" href=${runHref(name)} title=${idOf(name)}>…${idOf(name).slice(-6)}</a>`;

/** An executor by name, leading to its page. @param {{ name: string | undefined }} props */
export const ExecutorLink = ({ name = "" }) =>
  name ? html`<a href=${executorHref(name)}>${idOf(name)}</a>` : html`<span class="none">–</span>`;

/** @param {string} name @param {string} [page] */
export const jobHref = (name, page) =>
  href(["jobs", appOf(name), idOf(name), ...(page ? [page] : [])]);
/** @param {string} name */
export const runHref = (name) => href(["runs", appOf(name), idOf(name)]);
/** @param {string} name */
export const executorHref = (name) => href(["executors", appOf(name), idOf(name)]);
