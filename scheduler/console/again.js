// Loads the page again when one of its files did not arrive: a module that failed once stays failed
// for as long as its page does. No module itself, so that it is there when those are not.
(() => {
  const FIRST_MS = 500;
  const MAX_MS = 30_000;
  /** When the last try lies so far back, this trouble is another. */
  const FORGET_MS = 120_000;
  const TEXTS = {
    en: "The console did not arrive whole. It is loaded again as soon as it can be.",
    zh: "控制台未能完整加载，将在可用时自动重新加载。",
  };
  let waiting = false;

  /** Tries are counted from page to page: what always fails must not be asked for without rest. */
  function nextWait() {
    const { tries = 0, at = 0 } = history.state?.again ?? {};
    const before = Date.now() - at < FORGET_MS ? tries : 0;
    history.replaceState({ ...history.state, again: { tries: before + 1, at: Date.now() } }, "");
    return Math.min(FIRST_MS * 2 ** before, MAX_MS);
  }

  async function load() {
    // A page is not given up for one that can't come, nor what somebody writes meanwhile.
    const there = await fetch(document.baseURI, { cache: "no-store" }).then(({ ok }) => ok,
      () => false);
    if (there && !document.querySelector("form")) location.reload();
    else setTimeout(load, nextWait());
  }

  function again() {
    if (waiting) return;
    waiting = true;
    // As it came, with no page drawn into it.
    const app = document.querySelector("#app:has(noscript)");
    const lang = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
    if (app) app.textContent = TEXTS[lang];
    setTimeout(load, nextWait());
  }

  addEventListener("error", ({ target }) => {
    if (target instanceof Element && target.matches("script, link[rel=stylesheet]")) again();
  }, true);
  addEventListener("clawjob-incomplete", again);
})();
