// The log of one attempt, as it comes: all records in memory, and which of them are wanted.
import { follow } from "./stream.js";

export const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];
/** @param {string | undefined} text the contract's level; one that is not known is shown as INFO */
export const levelOf = (text) => {
  const word = (text ?? "").replace("LOG_LEVEL_", "");
  return LEVELS.includes(word) ? word : "INFO";
};

/** An attempt's log ends after 10 MiB; of one that is still longer the oldest lines go. */
const RECORDS_MAX = 500_000;

export class Log {
  /** @param {string} run @param {number} attempt @param {() => void} changed */
  constructor(run, attempt, changed) {
    /** @type {pb.StoredLogRecord[]} */
    this.all = [];
    /** Places in `all` of what is wanted. @type {number[]} */
    this.wanted = [];
    this.level = 0;
    this.text = "";
    this.dropped = 0;
    this.complete = false;
    /** @type {unknown} */
    this.error = null;
    let throughSeq = "0";
    this.stop = follow({
      method: "RunService/TailRunLogs",
      body: () => ({ name: run, attempt, afterSeq: throughSeq }),
      take: (/** @type {pb.TailRunLogsResponse} */ batch) => {
        throughSeq = batch.throughSeq ?? throughSeq;
        this.dropped = Number(batch.dropped ?? this.dropped);
        this.complete = batch.complete ?? false;
        this.error = null;
        this.add(batch.records ?? []);
        changed();
      },
      tell: (state, error) => {
        if (state === "waiting") this.error = error;
        changed();
      },
      over: () => this.complete,
    });
  }

  /** @param {pb.StoredLogRecord[]} records */
  add(records) {
    for (const record of records) {
      if (this.isWanted(record)) this.wanted.push(this.all.length);
      this.all.push(record);
    }
    if (this.all.length > RECORDS_MAX) {
      this.all.splice(0, this.all.length - RECORDS_MAX);
      this.filter(this.level, this.text);
    }
  }

  /** @param {pb.StoredLogRecord} stored */
  isWanted({ record = {} }) {
    if (LEVELS.indexOf(levelOf(record.level)) < this.level) return false;
    if (!this.text) return true;
    const has = (/** @type {string} */ text) => text.toLowerCase().includes(this.text);
    return has(record.message ?? "") ||
      Object.entries(record.fields ?? {}).some(([key, value]) => has(`${key}=${value}`));
  }

  /** @param {number} level the least that is shown @param {string} text */
  filter(level, text) {
    this.level = level;
    this.text = text.toLowerCase();
    this.wanted = [];
    this.all.forEach((record, i) => this.isWanted(record) && this.wanted.push(i));
  }

  /** Everything as plain text, a record a line. */
  asText() {
    const lines = this.all.map(({ record = {} }) => {
      const fields = Object.entries(record.fields ?? {}).map(([key, value]) => ` ${key}=${value}`);
      return `${record.time ?? ""} ${levelOf(record.level).padEnd(5)} ${record.message ??
        ""}${fields.join("")}`;
    });
    return `${lines.join("\n")}\n`;
  }
}
