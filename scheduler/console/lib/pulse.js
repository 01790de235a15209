// What has been going on lately: the runs of the last hour, those that are open, and those that
// ended badly within a day. Kept up to date by one watch.
import { allOf, oneOf } from "./names.js";
import { listAll } from "./rpc.js";
import { FAILED, isOpen, stateOf, troubles } from "./runs.js";
import { store } from "./store.js";
import { watchRuns } from "./stream.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Runs of the last hour that are looked at, and bad ends of a day that are counted. */
const RECENT_MAX = 5000;
const TROUBLED_MAX = 5000;
/** Runs of either kind that are kept at all: of a busier hour or day only its end is. */
const KEPT_MAX = 20_000;
/** Changes that come faster are shown together. */
const DRAW_MS = 500;
/** Jobs whose last run is looked up one by one. */
const ASKED_MAX = 40;

/** @typedef {"open" | "waiting" | "begin"} Line */

export class Pulse {
  constructor() {
    /** @type {Map<string, pb.Run>} */
    this.recent = new Map();
    /** @type {Map<string, pb.Run>} */
    this.troubled = new Map();
    /** More bad ends than are counted. */
    this.troubledMore = false;
    /** The recent runs are all there are since then. */
    this.since = Date.now() - HOUR_MS;
    /** Whether both lists were read. */
    this.loaded = false;
    /** Whether the watch has told all open runs. */
    this.present = false;
    /** @type {Line} */
    this.line = "begin";
    this.heardAt = 0;
    /** @type {unknown} */
    this.error = null;
    /** Jobs whose last bad end was looked up: the name of a later good run, or "". */
    /** @type {Map<string, { of: string, later: string }>} */
    this.asked = new Map();
    this.drawn = store(0);
    this.timer = 0;
    /** @type {() => void} */
    this.stopWatch = () => {};
  }

  start() {
    this.stopWatch = watchRuns({ parent: "apps/-" }, {
      take: (type, run) => this.take(type, run),
      tell: (line, error) => {
        this.line = line;
        this.heardAt = line === "open" ? Date.now() : this.heardAt;
        this.error = error ?? null;
        this.draw();
      },
    });
    this.load();
  }

  stop() {
    this.stopWatch();
    clearTimeout(this.timer);
  }

  draw() {
    if (this.timer) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.forget();
      this.drawn.set(this.drawn.get() + 1);
    }, DRAW_MS);
  }

  async load() {
    /** @param {number} ms */
    const after = (ms) => `create_time > "${new Date(Date.now() - ms).toISOString()}"`;
    /** @param {string} filter @param {number} max */
    const list = (filter, max) =>
      listAll("RunService/ListRuns", { parent: "apps/-", filter }, "runs", max);
    try {
      const [recent, failed, skipped] = await Promise.all([
        list(after(HOUR_MS), RECENT_MAX),
        list(allOf(oneOf("state", FAILED), after(DAY_MS)), TROUBLED_MAX),
        list(allOf("state = SKIPPED", after(DAY_MS)), TROUBLED_MAX),
      ]);
      for (const run of /** @type {pb.Run[]} */ (recent.items)) {
        if (!this.recent.has(run.name ?? "")) this.recent.set(run.name ?? "", run);
      }
      for (const run of /** @type {pb.Run[]} */ ([...failed.items, ...skipped.items])) {
        if (troubles(run)) this.troubled.set(run.name ?? "", run);
      }
      const oldest = /** @type {pb.Run | undefined} */ (recent.items.at(-1));
      if (recent.more && oldest?.createTime) this.since = Date.parse(oldest.createTime);
      this.troubledMore = failed.more || skipped.more;
      this.loaded = true;
    } catch (error) {
      this.error = error;
    }
    this.draw();
  }

  /** @param {string} type @param {pb.Run | undefined} run */
  take(type, run) {
    this.heardAt = Date.now();
    const name = run?.name ?? "";
    if (type === "RESET") this.recent.clear();
    if (type === "BOOKMARK") this.present = true;
    if (type === "DELETED") {
      this.recent.delete(name);
      this.troubled.delete(name);
    }
    if (run && (type === "CURRENT" || type === "CHANGED")) {
      this.recent.set(name, run);
      if (troubles(run)) this.troubled.set(name, run);
    }
    this.draw();
  }

  /** Lets go of what is older than what is shown. */
  forget() {
    const [hour, day] = [Date.now() - HOUR_MS, Date.now() - DAY_MS];
    this.since = Math.max(this.since, hour);
    for (const [name, run] of this.recent) {
      if (!isOpen(stateOf(run.state)) && endOf(run) < hour) this.recent.delete(name);
    }
    for (const [name, run] of this.troubled) {
      if (Date.parse(run.createTime ?? "") < day) this.troubled.delete(name);
    }
    if (this.recent.size > KEPT_MAX) this.shorten();
    if (this.troubled.size > KEPT_MAX) this.shortenTroubled();
  }

  /** Lets go of the older half of the runs that have ended. */
  shorten() {
    const ended = [...this.recent].filter(([, run]) => !isOpen(stateOf(run.state)));
    ended.sort(([, a], [, b]) => endOf(a) - endOf(b));
    const half = Math.floor(ended.length / 2);
    for (const [name] of ended.slice(0, half)) this.recent.delete(name);
    const oldest = ended[half];
    if (oldest) this.since = Math.max(this.since, endOf(oldest[1]));
  }

  /** Lets go of the older half of the bad ends. */
  shortenTroubled() {
    const all = [...this.troubled].sort(([, a], [, b]) => endOf(a) - endOf(b));
    for (const [name] of all.slice(0, all.length / 2)) this.troubled.delete(name);
    this.troubledMore = true;
  }

  /** Failed runs and missed fire times of a day. */
  troubles() {
    return [...this.troubled.values()].reduce((sum, run) => sum + troubles(run), 0);
  }

  /** @param {string[]} states */
  open(states) {
    return [...this.recent.values()].filter((run) => states.includes(stateOf(run.state)));
  }

  /**
   * Jobs whose last run ended badly: since when, how often in a row, and the last one.
   * @returns {{ job: string, runs: pb.Run[] }[]} runs newest first
   */
  failing() {
    /** @type {Map<string, pb.Run[]>} */
    const byJob = new Map();
    const all = new Map([...this.troubled, ...this.recent]);
    for (const run of all.values()) {
      const state = stateOf(run.state);
      if (isOpen(state) || state === "SKIPPED" || state === "CANCELED" || run.parentRun) continue;
      const runs = byJob.get(run.job ?? "") ?? [];
      runs.push(run);
      byJob.set(run.job ?? "", runs);
    }
    const found = [];
    for (const [job, runs] of byJob) {
      runs.sort((a, b) => endOf(b) - endOf(a));
      const good = runs.findIndex((run) => !FAILED.includes(stateOf(run.state)));
      const streak = good < 0 ? runs : runs.slice(0, good);
      if (streak.length > 0 && this.isLast(job, streak[0])) found.push({ job, runs: streak });
    }
    return found.sort((a, b) => endOf(b.runs[0]) - endOf(a.runs[0]));
  }

  /**
   * Whether no good run came after this one, as far as is known; what lies further back than the
   * recent runs is asked for.
   * @param {string} job
   * @param {pb.Run} run
   */
  isLast(job, run) {
    if (endOf(run) > this.since) return true;
    const asked = this.asked.get(job);
    if (asked && asked.of === run.name) return !asked.later;
    if (this.loaded && this.asked.size < ASKED_MAX) this.ask(job, run);
    return true;
  }

  /** @param {string} job @param {pb.Run} run */
  async ask(job, run) {
    this.asked.set(job, { of: run.name ?? "", later: "" });
    const filter = allOf(oneOf("job", [job]), `state = SUCCEEDED`);
    const body = { parent: "apps/-", filter };
    try {
      const { items } = await listAll("RunService/ListRuns", body, "runs", 1);
      const good = /** @type {pb.Run | undefined} */ (items[0]);
      const later = good && endOf(good) > endOf(run) ? good.name ?? "" : "";
      this.asked.set(job, { of: run.name ?? "", later });
      this.draw();
    } catch {
      this.asked.delete(job);
    }
  }
}

/** When a run ended, or was planned when it never began. @param {pb.Run} run */
export const endOf = (run) => Date.parse(run.endTime ?? run.fireTime ?? run.createTime ?? "");
