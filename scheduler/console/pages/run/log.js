// The log of a run: only the lines in sight are in the page, so that any number stays smooth.
import { cls, html, useEffect, useLayoutEffect, useRef, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { LEVELS, Log, levelOf } from "../../lib/log.js";
import { idOf } from "../../lib/names.js";
import { clockOf, shownZone, zoneName } from "../../lib/time.js";
import { Button, Fault } from "../../parts/basics.js";
import { valueOf } from "../../parts/form.js";

/** Height of a line, in pixels; the style sheet has it, too. */
const LINE = 20;
/** A short log has a short box. */
const LINES_MIN = 6;
/** Lines above and below those in sight. */
const SPARE = 30;

/** @param {{ run: string, attempt: number, attempts: number, zone: string }} props */
export function RunLog({ run, attempt, attempts, zone }) {
  const [shown, setShown] = useState(attempt);
  const log = useLog(run, shown);
  const [level, setLevel] = useState(0);
  const [text, setText] = useState("");
  const [following, setFollowing] = useState(true);
  const [open, setOpen] = useState(-1);
  useEffect(() => setShown(attempt), [attempt]);
  /** @param {number} least @param {string} words */
  const filter = (least, words) => {
    setLevel(least);
    setText(words);
    log.filter(least, words);
    setOpen(-1);
  };
  return html`<div class="log">
    <div class="filters">
      <label class="search"><span class="sr">${t("log.search")}</span>
        <input type="search" value=${text}
        placeholder=${t("log.search")} data-search=""
          onInput=${(/** @type {Event} */ e) => filter(level, valueOf(e))} /></label>
      <label class="pick"><span class="sr">${t("log.level")}</span><select value=${String(level)}
        onChange=${(/** @type {Event} */ e) => filter(Number(valueOf(e)), text)}
          aria-label=${t("log.level")}>
        ${LEVELS.map((word, i) =>
          html`<option key=${word} value=${String(i)}>${t("log.from", { level: word })}</option>`)}
        </select></label>
      ${attempts > 1 && html`<label class="pick"><span class="sr">${t("run.attempt")}</span>
        <select value=${String(shown)}
          onChange=${(/** @type {Event} */ e) => setShown(Number(valueOf(e)))}
          aria-label=${t("run.attempt")}>${Array.from({ length: attempts }, (_, i) =>
            html`<option key=${i} value=${String(i + 1)}>
              ${t("run.attemptN", { n: i + 1 })}</option>`)}</select></label>`}
      <${Button} icon="refresh" pressed=${following} onClick=${() => setFollowing(!following)}>
        ${t("log.follow")}<//>
      <${Button} icon="down" onClick=${() => download(run, shown, log)}>${t("log.download")}<//>
      <span class="minor">${t(log.wanted.length === log.all.length ? "log.lines" : "log.someLines",
        { n: log.wanted.length, all: log.all.length })}
        ${log.dropped > 0 && ` · ${t("log.dropped", { n: log.dropped })}`}
        ${!log.complete && ` · ${t("log.live")}`} · ${zoneName(shownZone(zone))}</span>
    </div>
    <${Fault} error=${log.error} />
    <${Lines} log=${log} zone=${zone} following=${following} setFollowing=${setFollowing}
      open=${open} setOpen=${setOpen} />
    ${open >= 0 && html`<${OneRecord} stored=${log.all[open]} />`}</div>`;
}

/** @param {string} run @param {number} attempt */
function useLog(run, attempt) {
  const [, redraw] = useState(0);
  const current = useRef(/** @type {{ key: string, log: Log } | null} */ (null));
  const key = `${run} ${attempt}`;
  if (current.current?.key !== key) {
    current.current?.log.stop();
    let waiting = 0;
    const changed = () => {
      waiting ||= requestAnimationFrame(() => {
        waiting = 0;
        redraw((n) => n + 1);
      });
    };
    current.current = { key, log: new Log(run, attempt, changed) };
  }
  useEffect(() => () => current.current?.log.stop(), []);
  return current.current.log;
}

/**
 * @param {{
 *   log: Log, zone: string, following: boolean, setFollowing: (on: boolean) => void,
 *   open: number, setOpen: (place: number) => void,
 * }} props
 */
function Lines({ log, zone, following, setFollowing, open, setOpen }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [top, setTop] = useState(0);
  const count = log.wanted.length;
  useLayoutEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [count, following]);
  const onScroll = () => {
    const at = box.current;
    if (!at) return;
    setTop(at.scrollTop);
    const atEnd = at.scrollTop + at.clientHeight >= at.scrollHeight - LINE;
    if (atEnd !== following && !atEnd) setFollowing(false);
  };
  /**
   * Opens the next record or the one before, and brings it into sight.
   * @param {KeyboardEvent} event
   */
  const onKey = (event) => {
    const step = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
    if (step === 0 || count === 0) return;
    event.preventDefault();
    const now = log.wanted.indexOf(open);
    const begin = step > 0 ? 0 : count - 1;
    const next = now < 0 ? begin : Math.max(0, Math.min(count - 1, now + step));
    setFollowing(false);
    setOpen(log.wanted[next]);
    const at = box.current;
    if (!at) return;
    const [above, below] = [next * LINE, (next + 1) * LINE - at.clientHeight];
    at.scrollTop = Math.max(below, Math.min(above, at.scrollTop));
  };
  const height = box.current?.clientHeight ?? 600;
  const first = Math.max(0, Math.floor(top / LINE) - SPARE);
  const last = Math.min(count, first + Math.ceil(height / LINE) + 2 * SPARE);
  const shownIn = shownZone(zone);
  return html`<div class="log-lines" ref=${box}
    style=${{ height: `min(60vh, ${Math.max(LINES_MIN, count + 1) * LINE}px)` }}
      onScroll=${onScroll} onKeyDown=${onKey} tabindex="0" role="log"
    aria-label=${t("run.logKeys")} aria-live="off">
    ${count === 0 && html`<p class="log-none">
      ${t(log.all.length ? "log.noMatch" : log.complete ? "log.none" : "log.noneYet")}</p>`}
    <div class="log-all" style=${{ height: `${count * LINE}px` }}>
      <div style=${{ transform: `translateY(${first * LINE}px)` }}>
        ${log.wanted.slice(first, last).map((place) =>
          html`<${Line} key=${place} stored=${log.all[place]}
          on=${place === open} zone=${shownIn} act=${() => setOpen(place === open ? -1 : place)}
            />`)}
      </div></div></div>`;
}

/** @param {{ stored: pb.StoredLogRecord, on: boolean, zone: string, act: () => void }} props */
function Line({ stored: { seq, record = {} }, on, zone, act }) {
  const level = levelOf(record.level);
  const at = Date.parse(record.time ?? "");
  const ms = Number.isNaN(at) ? "" : String(at % 1000).padStart(3, "0");
  return html`<div class=${cls("log-line", `level-${level}`, on && "on")} onClick=${act}
    data-seq=${seq}>
    <span class="log-time">${ms && `${clockOf(at, zone)}.${ms}`}</span>
    <span class="log-level">${level}</span><span class="log-text">${record.message}</span>
    ${Object.entries(record.fields ?? {}).map(([key, value]) =>
      html`<span class="log-field" key=${key}>${key}=<i>${value}</i></span>`)}</div>`;
}

/** A record with all its lines. @param {{ stored: pb.StoredLogRecord | undefined }} props */
function OneRecord({ stored }) {
  if (!stored?.record) return null;
  const { time, message, fields = {} } = stored.record;
  return html`<div class="log-one"><p class="minor">
    ${t("log.record", { n: Number(stored.seq) })} · ${time}</p>
    <pre>${message}</pre>${Object.entries(fields).map(([key, value]) =>
      html`<p key=${key}><b>${key}</b> ${value}</p>`)}</div>`;
}

/** @param {string} run @param {number} attempt @param {Log} log */
function download(run, attempt, log) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([log.asText()], { type: "text/plain" }));
  link.download = `${idOf(run)}-${attempt}.log`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

