// Is everything all right, and if not: what, since when, why.
import { html, useEffect, useState } from "../lib/dom.js";
import { atLeast, number, t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { Pulse } from "../lib/pulse.js";
import { href } from "../lib/router.js";
import { call, listAll } from "../lib/rpc.js";
import { RUNNING } from "../lib/runs.js";
import { useStore } from "../lib/store.js";
import { ButtonLink, Fault, Panel } from "../parts/basics.js";
import { ZoneNote } from "../parts/when.js";
import { AppsTable, NodesTable, RunningTable, slotsOf } from "./home/fleet.js";
import { findings } from "./home/findings.js";
import { FiresPlot, LatenessPlot } from "./home/plots.js";
import { Verdict } from "./home/verdict.js";

const FLEET_MS = 5000;
const SLOW_MS = 30_000;
const DUE_MAX = 5000;
const EXECUTORS_MAX = 5000;
const ALARMS_MAX = 1000;

export function Home() {
  const [pulse] = useState(() => new Pulse());
  useStore(pulse.drawn);
  useEffect(() => {
    pulse.start();
    return () => pulse.stop();
  }, []);
  const fleet = useAsk(askFleet, [], FLEET_MS);
  const due = useAsk(askDue, [], SLOW_MS);
  const running = pulse.open(RUNNING);
  const waiting = pulse.open(["QUEUED", "RETRY_WAIT"]);
  const found = pulse.loaded && fleet.value ? findings(pulse, fleet.value) : undefined;
  useEffect(() => {
    const count = found?.length ?? 0;
    document.title = `${count ? `(${count}) ` : ""}${t("page.home")} · ClawJob`;
  });
  const executors = fleet.value?.executors ?? { items: [], more: false };
  const { slots, free } = slotsOf(executors.items);
  return html`<div class="home">
    <${Verdict} pulse=${pulse} found=${found} />
    <${Fault} error=${fleet.error ?? (pulse.loaded ? null : pulse.error)} again=${fleet.again} />
    <div class="tiles">
      <${Tile} to=${href("/runs", { state: "running" })} label=${t("home.running")} tone="run"
        value=${pulse.loaded && pulse.present ? number(running.length) : ""}
        note=${t("home.waiting", { n: waiting.length })} />
      <${Tile} to=${href("/forecast", { hours: "1" })} label=${t("home.due")}
        value=${count(due.value)} note=${t("home.dueNote")} />
      <${Tile} to=${href("/runs", { state: "troubled", since: "24h" })} label=${t("home.troubled")}
        tone=${pulse.troubled.size ? "bad" : "ok"}
        value=${pulse.loaded ? atLeast(pulse.troubles(), pulse.troubledMore) : ""}
        note=${t("home.troubledNote")} />
      <${Tile} to=${href("/alarms")} label=${t("home.alarms")}
        tone=${fleet.value?.alarms.items.length ? "bad" : "ok"}
        value=${count(fleet.value?.alarms)} note=${t("home.alarmsNote")} />
      <${Tile} to=${href("/executors")} label=${t("home.slots")}
        value=${fleet.value ? atLeast(free, executors.more) : ""}
        note=${t("home.slotsNote", { n: atLeast(slots, executors.more) })} />
    </div>
    <div class="columns">
      <${Panel} title=${t("home.fires")} aside=${html`<${ZoneNote} />`}>
        <${FiresPlot} pulse=${pulse} /><//>
      <${Panel} title=${t("home.lateness")}
        aside=${html`<span class="minor">${t("home.latenessNote")}</span>`}>
        <${LatenessPlot} pulse=${pulse} /><//>
      <${Panel} title=${t("home.running")} aside=${html`<${ButtonLink} kind="quiet" icon="next"
        href=${href("/runs", { state: "running" })}>${t("home.allRuns")}<//>`}>
        <${RunningTable} runs=${running} /><//>
      <${Panel} title=${t("home.executors")} aside=${html`<${ButtonLink} kind="quiet" icon="next"
        href=${href("/executors")}>${t("page.executors")}<//>`}>
        <${AppsTable} executors=${fleet.value?.executors.items} /><//>
      <${Panel} title=${t("home.nodes")} class="full"
        aside=${html`<${ButtonLink} kind="quiet" icon="next"
        href=${href("/cluster")}>${t("page.cluster")}<//>`}>
        <${NodesTable} cluster=${fleet.value?.cluster} /><//>
    </div></div>`;
}

/** @typedef {Awaited<ReturnType<typeof askFleet>>} Fleet */

async function askFleet() {
  const open = { parent: "apps/-", filter: "acknowledged = false" };
  const [cluster, executors, alarms] = await Promise.all([
    /** @type {Promise<pb.Cluster>} */ (call("ClusterService/GetCluster")),
    listAll("FleetService/ListExecutors", { parent: "apps/-" }, "executors", EXECUTORS_MAX),
    listAll("AlarmService/ListAlarms", open, "alarms", ALARMS_MAX),
  ]);
  return {
    cluster,
    executors: /** @type {{ items: pb.Executor[], more: boolean }} */ (executors),
    alarms: /** @type {{ items: pb.Alarm[], more: boolean }} */ (alarms),
  };
}

function askDue() {
  const [start, end] = [Date.now(), Date.now() + 3_600_000].map((ms) => new Date(ms).toISOString());
  const body = { parent: "apps/-", startTime: start, endTime: end };
  return listAll("JobService/ForecastRuns", body, "fires", DUE_MAX);
}

/** @param {{ items: unknown[], more: boolean } | undefined} list */
const count = (list) => (list ? atLeast(list.items.length, list.more) : "");

/** @param {{ to: string, label: string, value: string, note: string, tone?: string }} props */
const Tile = ({ to, label, value, note, tone = "plain" }) =>
  html`<a class=${`tile tone-${tone}`} href=${to}>
    <span class="tile-label">${label}</span>
    <span class="tile-value">
      ${value || html`<span class="dots" aria-label=${t("loading")}></span>`}</span>
    <span class="tile-note">${note}</span></a>`;
