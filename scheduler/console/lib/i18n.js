// Texts by key. Both languages have the same keys; a test sees to it.
import en from "../i18n/en.js";
import zh from "../i18n/zh.js";
import { prefs } from "./prefs.js";

/** @type {Record<string, Record<string, string>>} */
const TEXTS = { en, zh };

/**
 * The text of a key, with `{name}` replaced by the value of that name. With a number `n`, the key
 * `KEY.one` is taken for a single thing where the language has it.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const { lang } = prefs.get();
  const texts = TEXTS[lang];
  const text = (values.n === 1 && texts[`${key}.one`]) || texts[key];
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? number(value) : value;
  });
}

/** The text of a key that may not be there. @param {string} key @returns {string | undefined} */
export const has = (key) => TEXTS[prefs.get().lang][key];

/** A number with the separators of the language. @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  const locale = prefs.get().lang === "zh" ? "zh-CN" : "en";
  return value.toLocaleString(locale, { maximumFractionDigits: digits });
}

/** How many there are at least, when there are `more` than were counted. */
export const atLeast = (/** @type {number} */ n, /** @type {boolean} */ more) =>
  number(n) + (more ? "+" : "");
