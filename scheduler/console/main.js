// The console: a client of the contract, drawn anew from the address.
import { html, render, useEffect } from "./lib/dom.js";
import { t } from "./lib/i18n.js";
import { forgetLists } from "./lib/list.js";
import { applyPrefs, prefs } from "./lib/prefs.js";
import { useRoute } from "./lib/router.js";
import { begin, session } from "./lib/session.js";
import { useStore } from "./lib/store.js";
import { Empty } from "./parts/basics.js";
import { Shell } from "./parts/shell.js";
import { Access } from "./pages/access.js";
import { Alarms } from "./pages/alarms.js";
import { Cluster } from "./pages/cluster.js";
import { Executor } from "./pages/executor.js";
import { Executors } from "./pages/executors.js";
import { Forecast } from "./pages/forecast.js";
import { Home } from "./pages/home.js";
import { Job } from "./pages/job.js";
import { JobForm } from "./pages/jobform.js";
import { Jobs } from "./pages/jobs.js";
import { Run } from "./pages/run.js";
import { Runs } from "./pages/runs.js";
import { SignIn } from "./pages/signin.js";

/**
 * The page of an address.
 * @param {string[]} parts
 */
function page([first = "", app = "", id = "", sub = ""]) {
  switch (first) {
    case "":
      return html`<${Home} />`;
    case "jobs":
      if (!app) return html`<${Jobs} />`;
      if (!id) return html`<${JobForm} key="new" />`;
      if (sub === "edit") return html`<${JobForm} key=${`${app}/${id}`} app=${app} id=${id} />`;
      return html`<${Job} key=${`${app}/${id}`} app=${app} id=${id} tab=${sub} />`;
    case "runs":
      return id ? html`<${Run} key=${id} app=${app} id=${id} />` : html`<${Runs} />`;
    case "forecast":
      return html`<${Forecast} />`;
    case "executors":
      return id ? html`<${Executor} key=${id} app=${app} id=${id} />` : html`<${Executors} />`;
    case "cluster":
      return html`<${Cluster} />`;
    case "alarms":
      return html`<${Alarms} tab=${app} />`;
    case "access":
      return html`<${Access} tab=${app} />`;
    default:
      return html`<${Empty} title=${t("page.none")} hint=${t("page.noneHint")} />`;
  }
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
  // Lists of one viewer are not another's.
  useEffect(forgetLists, [principal]);
  if (state !== "in") return html`<${SignIn} />`;
  return html`<${Shell}>${page(parts)}<//>`;
}

applyPrefs();
begin();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
