// What a viewer has chosen: language, theme, whose clock. Kept in this browser.
import { store } from "./store.js";

/**
 * @typedef {object} Prefs
 * @property {"en" | "zh"} lang
 * @property {"system" | "light" | "dark"} theme
 * @property {"local" | "job" | "utc"} zone whose clock times are shown by
 */

const KEY = "clawjob.prefs";

/** @returns {Prefs} */
function load() {
  /** @type {Partial<Prefs>} */
  let kept = {};
  try {
    kept = JSON.parse(localStorage.getItem(KEY) || "{}");
  } catch {
    // Storage that is closed or holds something else: the defaults serve.
  }
  const spoken = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
  /** @template T @param {T} value @param {T[]} known @param {T} other */
  const one = (value, known, other) => (known.includes(value) ? value : other);
  return {
    lang: one(/** @type {any} */ (kept.lang), ["en", "zh"], spoken),
    theme: one(/** @type {any} */ (kept.theme), ["system", "light", "dark"], "system"),
    zone: one(/** @type {any} */ (kept.zone), ["local", "job", "utc"], "local"),
  };
}

/** @type {import("./store.js").Store<Prefs>} */
export const prefs = store(load());

/** @param {Partial<Prefs>} change */
export function prefer(change) {
  prefs.set({ ...prefs.get(), ...change });
  try {
    localStorage.setItem(KEY, JSON.stringify(prefs.get()));
  } catch {
    // Not kept; still in force on this page.
  }
}

/** Puts theme and language on the document, now and at each change. */
export function applyPrefs() {
  const apply = () => {
    const { theme, lang } = prefs.get();
    const root = document.documentElement;
    root.lang = lang === "zh" ? "zh-CN" : "en";
    const dark = theme === "dark" ||
      (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "dark" : "light";
  };
  apply();
  prefs.listen(apply);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
}
