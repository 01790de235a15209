// The console: a client of the contract, drawn anew from the address.
import { html, render, useEffect, useRef } from "./lib/dom.js";
import { t } from "./lib/i18n.js";
import { forgetLists } from "./lib/list.js";
import { applyPrefs, prefs } from "./lib/prefs.js";
import { route, useRoute } from "./lib/router.js";
import { begin, session } from "./lib/session.js";
import { store, useStore } from "./lib/store.js";
import { Empty, Loading } from "./parts/basics.js";
import { Shell } from "./parts/shell.js";
import { SignIn } from "./pages/signin.js";

/** @typedef {(parts: string[]) => any} Draw */

/**
 * The pages by the first part of their address. Each is loaded when it is first asked for.
 * @type {Record<string, () => Promise<Draw>>}
 */
const PAGES = {
  "": async () => {
    const { Home } = await import("./pages/home.js");
    return () => html`<${Home} />`;
  },
  jobs: async () => {
    const [{ Jobs }, { Job }, { JobForm }] = await Promise.all([
      import("./pages/jobs.js"), import("./pages/job.js"), import("./pages/jobform.js")]);
    return ([, app, id, sub]) => {
      if (!app) return html`<${Jobs} />`;
      if (!id) return html`<${JobForm} key="new" />`;
      const key = `${app}/${id}`;
      if (sub === "edit") return html`<${JobForm} key=${key} app=${app} id=${id} />`;
      return html`<${Job} key=${key} app=${app} id=${id} tab=${sub} />`;
    };
  },
  runs: async () => {
    const [{ Runs }, { Run }] = await Promise.all([
      import("./pages/runs.js"), import("./pages/run.js")]);
    return ([, app, id]) => (id ? html`<${Run} key=${id} app=${app} id=${id} />` :
      html`<${Runs} />`);
  },
  forecast: async () => {
    const { Forecast } = await import("./pages/forecast.js");
    return () => html`<${Forecast} />`;
  },
  calendars: async () => {
    const [{ Calendars }, { Calendar }] = await Promise.all([
      import("./pages/calendars.js"), import("./pages/calendar.js")]);
    return ([, app, id]) => (id ? html`<${Calendar} key=${`${app}/${id}`} app=${app} id=${id} />` :
      html`<${Calendars} />`);
  },
  executors: async () => {
    const [{ Executors }, { Executor }] = await Promise.all([
      import("./pages/executors.js"), import("./pages/executor.js")]);
    return ([, app, id]) =>
      (id ? html`<${Executor} key=${id} app=${app} id=${id} />` : html`<${Executors} />`);
  },
  cluster: async () => {
    const { Cluster } = await import("./pages/cluster.js");
    return () => html`<${Cluster} />`;
  },
  alarms: async () => {
    const { Alarms } = await import("./pages/alarms.js");
    return ([, tab]) => html`<${Alarms} tab=${tab} />`;
  },
  access: async () => {
    const { Access } = await import("./pages/access.js");
    return ([, tab]) => html`<${Access} tab=${tab} />`;
  },
};

/** @type {import("./lib/store.js").Store<Record<string, Draw>>} */
const loaded = store({});

/** @type {Draw} */
const incomplete = () => html`<${Empty} title=${t("page.incomplete")}
  hint=${t("page.incompleteHint")} />`;

/** @param {string} first */
async function load(first) {
  const page = PAGES[first];
  if (!page) return;
  const draw = await page().catch((fault) => {
    console.error(fault);
    dispatchEvent(new Event("clawjob-incomplete"));
    return incomplete;
  });
  loaded.set({ ...loaded.get(), [first]: draw });
}

/** The page of an address. @param {{ parts: string[] }} props */
function Page({ parts }) {
  const [first = ""] = parts;
  const draw = useStore(loaded)[first];
  useEffect(() => {
    if (!draw) load(first);
  }, [first, Boolean(draw)]);
  if (draw) return draw(parts);
  if (PAGES[first]) return html`<${Loading} />`;
  return html`<${Empty} title=${t("page.none")} hint=${t("page.noneHint")} />`;
}

/** @param {string[]} parts */
function titleOf([first, app, id]) {
  const name = id ? `${app}/${id}` : t(`page.${first ?? "home"}`);
  return `${name} · ClawJob`;
}

function App() {
  const { parts } = useRoute();
  const { state, principal } = useStore(session);
  const { lang } = useStore(prefs);
  useEffect(() => {
    if (parts[0]) document.title = titleOf(parts);
  }, [parts.join("/"), lang]);
  const shown = parts.slice(0, 3).join("/");
  const before = useRef(shown);
  useEffect(() => {
    // Who goes on by keyboard, or listens, begins with the page that came.
    if (before.current !== shown) document.getElementById("main")?.focus({ preventScroll: true });
    before.current = shown;
  }, [shown]);
  // Lists of one viewer are not another's.
  useEffect(forgetLists, [principal]);
  if (state !== "in") return html`<${SignIn} />`;
  return html`<${Shell}><${Page} parts=${parts} /><//>`;
}

applyPrefs();
// The page is on its way while the server is asked who looks at it.
load(route.get().parts[0] ?? "");
begin();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
