// What the scheduler says, in the viewer's language. It speaks English: a phrasebook has its
// sentences, and one that is not in it stays as it is.
import phrases from "../i18n/zh/phrases.js";
import schedules from "../i18n/zh/schedules.js";
import { prefs } from "./prefs.js";

/** @typedef {{ english: RegExp, text: string }} Phrase */

const LIST = (/** @type {string} */ item) => `${item}(?:(?:, | to | and )${item})*`;
/**
 * What may stand in a blank of a phrase, by the sign behind its name.
 * @type {Record<string, string>}
 */
const KINDS = {
  "": "[^]+?",
  "~": "\\S+",
  "#": LIST("\\d[\\d,]*"),
  "@": LIST("[A-Z0-9][\\w:]*"),
  "!": "SUCCEEDED|FAILED|TIMED_OUT|LOST|CANCELED",
};
const BLANK = /\{(\w+)([~#@!]?)\}/g;
/** What is longer is no sentence of the scheduler's. */
const SENTENCE_MAX = 1000;

/** @param {[string, string]} pair @returns {Phrase} */
function phrase([english, text]) {
  const parts = english.split(BLANK);
  let source = "";
  for (let i = 0; i < parts.length; i += 3) {
    source += parts[i].replace(/[.*+?^$()|[\]\\]/g, "\\$&");
    if (i + 2 < parts.length) source += `(?<${parts[i + 1]}>${KINDS[parts[i + 2]]})`;
  }
  return { english: new RegExp(`^${source}$`), text };
}

/** @type {Record<string, { sentences: Phrase[], schedules: Phrase[] }>} */
const BOOKS = { zh: { sentences: phrases.map(phrase), schedules: schedules.map(phrase) } };

/**
 * @param {string} sentence
 * @param {Phrase[]} book
 * @returns {string}
 */
function lookUp(sentence, book) {
  for (const { english, text } of book) {
    const found = english.exec(sentence);
    // What stands in a blank may be of the book, too.
    if (found) return text.replace(BLANK, (_, name) => lookUp(found.groups?.[name] ?? "", book));
  }
  return sentence;
}

/** @param {"sentences" | "schedules"} kind */
const by = (kind) => (/** @type {string | undefined} */ text = "") => {
  const book = BOOKS[prefs.get().lang]?.[kind];
  return book && text.length <= SENTENCE_MAX ? lookUp(text, book) : text;
};

/** A remark, a reason or a fault. */
export const told = by("sentences");
/** The description of a schedule. */
export const toldSchedule = by("schedules");
