// 中文。
import words from "./zh/words.js";
import pages from "./zh/pages.js";
import runs from "./zh/runs.js";
import forms from "./zh/forms.js";

/** @type {Record<string, string>} */
export default { ...words, ...pages, ...runs, ...forms };
