// Instants and lengths of time as people read them. A clock time never stands without its zone.
import { number, t } from "./i18n.js";
import { prefs } from "./prefs.js";

/** The viewer's own zone. */
export const LOCAL_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** @type {Map<string, Intl.DateTimeFormat | null>} */
const formats = new Map();

/** @param {string} zone @returns {Intl.DateTimeFormat | null} null for an unknown zone */
function format(zone) {
  let made = formats.get(zone);
  if (made === undefined) {
    try {
      made = new Intl.DateTimeFormat("en-CA", {
        timeZone: zone,
        hourCycle: "h23",
        year: "numeric",
        month: "2-digit",
        day: "2-digit",
        hour: "2-digit",
        minute: "2-digit",
        second: "2-digit",
      });
    } catch {
      made = null;
    }
    formats.set(zone, made);
  }
  return made;
}

/** Whether the browser knows the zone. @param {string} zone */
export const knowsZone = (zone) => format(zone) !== null;

/** The zone to show a time in. @param {string} [jobZone] the job's own, UTC when it names none */
export function shownZone(jobZone) {
  const { zone } = prefs.get();
  if (zone === "utc") return "UTC";
  if (zone === "job" && jobZone !== undefined) return knowsZone(jobZone) ? jobZone || "UTC" : "UTC";
  return LOCAL_ZONE;
}

/**
 * The parts of an instant on a zone's clock.
 * @param {number} ms
 * @param {string} zone
 */
function parts(ms, zone) {
  const used = format(zone) ?? format("UTC");
  /** @type {Record<string, string>} */
  const all = {};
  for (const { type, value } of used?.formatToParts(ms) ?? []) all[type] = value;
  return all;
}

/** YYYY-MM-DD on a zone's calendar. @param {number} ms @param {string} zone */
export function dateOf(ms, zone) {
  const p = parts(ms, zone);
  return `${p.year}-${p.month}-${p.day}`;
}

/** HH:MM:SS on a zone's clock. @param {number} ms @param {string} zone */
export function clockOf(ms, zone) {
  const p = parts(ms, zone);
  return `${p.hour}:${p.minute}:${p.second}`;
}

/** Date and time, the date short where it is near. @param {number} ms @param {string} zone */
export function near(ms, zone) {
  const [day, today] = [dateOf(ms, zone), dateOf(Date.now(), zone)];
  if (day === today) return clockOf(ms, zone);
  const short = day.slice(0, 4) === today.slice(0, 4) ? day.slice(5) : day;
  return `${short} ${clockOf(ms, zone)}`;
}

/** The whole instant with its zone. @param {number} ms @param {string} zone */
export const whole = (ms, zone) => `${dateOf(ms, zone)} ${clockOf(ms, zone)} ${zoneName(zone, ms)}`;

/** A zone with its distance from UTC. @param {string} zone @param {number} [ms] */
export function zoneName(zone, ms = Date.now()) {
  if (zone === "UTC") return "UTC";
  const options = /** @type {const} */ ({ timeZone: zone, timeZoneName: "shortOffset" });
  const named = new Intl.DateTimeFormat("en", options).formatToParts(ms);
  const offset = named.find((part) => part.type === "timeZoneName")?.value ?? "";
  return `${zone} (${offset.replace("GMT", "UTC")})`;
}

/** The weekday in the viewer's language. @param {number} ms @param {string} zone */
export function weekday(ms, zone) {
  const locale = prefs.get().lang === "zh" ? "zh-CN" : "en";
  return new Intl.DateTimeFormat(locale, { timeZone: zone, weekday: "short" }).format(ms);
}

/** Milliseconds of an instant of the contract. @param {string | undefined} text */
export const instant = (text) => (text ? Date.parse(text) : NaN);

/** Seconds of a duration of the contract, such as "1.5s". @param {string | undefined} text */
export const seconds = (text) => (text ? Number.parseFloat(text) : NaN);

/** A length of time in at most two units. @param {number} ms */
export function length(ms) {
  if (!Number.isFinite(ms)) return "";
  const sign = ms < 0 ? "−" : "";
  const s = Math.abs(ms) / 1000;
  if (s < 1) return `${sign}${Math.round(s * 1000)} ${t("unit.ms")}`;
  if (s < 10) return `${sign}${number(s, 1)} ${t("unit.s")}`;
  const whole = Math.round(s);
  if (whole < 60) return `${sign}${whole} ${t("unit.s")}`;
  /** @type {[number, string][]} */
  const units = [[86400, t("unit.d")], [3600, t("unit.h")], [60, t("unit.min")], [1, t("unit.s")]];
  const at = units.findIndex(([size]) => whole >= size);
  const [size, unit] = units[at];
  const [small, smallUnit] = units[at + 1];
  const rest = Math.floor((whole % size) / small);
  const first = `${Math.floor(whole / size)} ${unit}`;
  return sign + (rest ? `${first} ${rest} ${smallUnit}` : first);
}

/** How far an instant is from now, in words. @param {number} ms */
export function ago(ms) {
  const distance = Date.now() - ms;
  if (Math.abs(distance) < 1000) return t("time.now");
  const text = length(Math.round(Math.abs(distance) / 1000) * 1000);
  return distance > 0 ? t("time.ago", { text }) : t("time.in", { text });
}

/** Units that are read, in seconds: those of both languages, so that what is shown can be typed. */
const UNITS = { ms: 0.001, s: 1, min: 60, m: 60, h: 3600, d: 86400,
  毫秒: 0.001, 秒: 1, 分钟: 60, 分: 60, 小时: 3600, 天: 86400 };
const UNIT = Object.keys(UNITS).join("|");
const LENGTH = new RegExp(`^(\\d+(\\.\\d+)?(${UNIT}))+$`);
const LENGTH_PART = new RegExp(`(\\d+(?:\\.\\d+)?)(${UNIT})`, "g");

/**
 * Reads "90s", "1h30m", "5 min" or a plain number of seconds into a duration of the contract.
 * @param {string} text
 * @returns {string | undefined} undefined when it can't be read
 */
export function readLength(text) {
  const clean = text.replace(/\s+/g, "");
  if (/^\d+(\.\d+)?$/.test(clean)) return `${clean}s`;
  if (!LENGTH.test(clean)) return undefined;
  let sum = 0;
  for (const [, value, unit] of clean.matchAll(LENGTH_PART)) {
    sum += Number(value) * UNITS[/** @type {keyof typeof UNITS} */ (unit)];
  }
  return `${Number(sum.toFixed(9))}s`;
}

/** A duration of the contract as `readLength` takes it. @param {string | undefined} text */
export function writeLength(text) {
  const total = seconds(text);
  if (!Number.isFinite(total)) return "";
  if (total !== Math.floor(total)) return `${total}s`;
  let rest = total;
  let out = "";
  for (const [unit, size] of /** @type {[string, number][]} */ (
    [["d", 86400], ["h", 3600], ["m", 60]])) {
    if (rest >= size) out += `${Math.floor(rest / size)}${unit}`;
    rest %= size;
  }
  return rest || !out ? `${out}${rest}s` : out;
}

/**
 * The instant of a wall-clock text ("2026-01-31T09:00") in a zone.
 * @param {string} text
 * @param {string} zone
 * @returns {number} NaN when it can't be read
 */
export function wallClock(text, zone) {
  const asUtc = Date.parse(`${text.length === 16 ? `${text}:00` : text}Z`);
  if (Number.isNaN(asUtc)) return NaN;
  let guess = asUtc;
  // Twice, since the distance from UTC may differ at the guess.
  for (let i = 0; i < 2; i += 1) {
    const shown = Date.parse(`${dateOf(guess, zone)}T${clockOf(guess, zone)}Z`);
    guess += asUtc - shown;
  }
  return guess;
}

/**
 * An instant as a field of type datetime-local takes it.
 * @param {number} ms
 * @param {string} zone
 */
export const wallText = (ms, zone) => `${dateOf(ms, zone)}T${clockOf(ms, zone)}`;
