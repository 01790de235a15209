// English.
import words from "./en/words.js";
import pages from "./en/pages.js";
import runs from "./en/runs.js";
import forms from "./en/forms.js";

/** @type {Record<string, string>} */
export default { ...words, ...pages, ...runs, ...forms };
