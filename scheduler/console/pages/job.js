// One job: its runs, its coming fires, its settings and its past.
import { html, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { useAsk } from "../lib/list.js";
import { appOf } from "../lib/names.js";
import { go, href, setQuery, useRoute } from "../lib/router.js";
import { call } from "../lib/rpc.js";
import { zoneOf } from "../lib/schedules.js";
import { can } from "../lib/session.js";
import { told } from "../lib/told.js";
import { Button, ButtonLink, Empty, Fault, Loading, PageHead, Panel,
  Tabs } from "../parts/basics.js";
import { Ask, say, sayFault } from "../parts/dialog.js";
import { Pick } from "../parts/filters.js";
import { Life, jobHref } from "../parts/state.js";
import { When, ZoneNote } from "../parts/when.js";
import { GROUPS, SINCE } from "../lib/runfilter.js";
import { STATES } from "../lib/runs.js";
import { Backfill } from "./job/backfill.js";
import { Coming } from "./job/coming.js";
import { Pause } from "./job/pause.js";
import { Revisions } from "./job/revisions.js";
import { Settings } from "./job/settings.js";
import { Trigger } from "./job/trigger.js";
import { RunsTable } from "./runs.js";

const LIVE_MS = 5000;

/** @param {{ app: string, id: string, tab: string }} props */
export function Job({ app, id, tab }) {
  const name = `apps/${app}/jobs/${id}`;
  const asked = useAsk(() => /** @type {Promise<pb.Job>} */ (call("JobService/GetJob", { name })),
    [name], LIVE_MS);
  const job = asked.value;
  const up = { href: href("/jobs"), text: t("page.jobs") };
  if (!job) {
    return asked.error
      ? html`<${PageHead} title=${id} up=${up} />
        <${Fault} error=${asked.error} again=${asked.again} />`
      : html`<${Loading} />`;
  }
  const tabs = [["", t("page.runs")], ["coming", t("job.coming")], ["settings", t("job.settings")],
    ["revisions", t("job.revisions")]];
  return html`<${PageHead} up=${up} title=${html`<span class="of">${app}/</span>${id}`}
      lead=${html`<${Life} state=${job.state} />
        ${job.pauseUntilTime && html`<span>${t("job.pausedUntil")} <${When}
          at=${job.pauseUntilTime} zone=${zoneOf(job)} /></span>`}
        ${job.pauseReason && html`<span>${job.pauseReason}</span>`}
        ${job.nextFireTime && html`<span>${t("job.next")} <${When} at=${job.nextFireTime}
          zone=${zoneOf(job)} rel next /></span>`}
        ${job.nextDueTime && job.nextDueTime !== job.nextFireTime && html`<span>${t("run.due")}
          <${When} at=${job.nextDueTime} zone=${zoneOf(job)} rel next /></span>`}
        ${job.displayName && html`<span>${job.displayName}</span>`}`}>
      <${Actions} job=${job} again=${asked.again} /><//>
    <${Fault} error=${asked.error} again=${asked.again} />
    ${job.problem && html`<div class="failure tone-bad"><p><b>${t("job.problem")}</b></p><p>
      ${told(job.problem)}</p></div>`}
    ${job.description && html`<p class="description">${job.description}</p>`}
    <${Tabs} label=${id} of=${tabs.map(([at, text]) =>
      ({ href: jobHref(name, at), text, on: at === (tab ?? "") }))} />
    ${tab === "coming" && html`<${Coming} job=${job} />`}
    ${tab === "settings" && html`<${Settings} job=${job} />`}
    ${tab === "revisions" && html`<${Revisions} job=${job} again=${asked.again} />`}
    ${!tab && html`<${JobRuns} name=${name} />`}`;
}

/** @param {{ name: string }} props */
function JobRuns({ name }) {
  const { query } = useRoute();
  const scoped = new URLSearchParams(query);
  scoped.set("app", appOf(name));
  return html`<div class="filters">
      <${Pick} name="state" label=${t("word.state")} options=${[
        ...Object.keys(GROUPS).map((group) => [group, t(`group.${group}`)]),
        ...STATES.map((state) => [state, t(`state.${state}`)])]} />
      <${Pick} name="since" label=${t("runs.since")} any=${t("runs.always")}
        options=${Object.keys(SINCE).map((span) => [span, t(`since.${span}`)])} /><${ZoneNote} />
          </div>
    <${RunsTable} jobs=${[name]} query=${scoped} label=${t("page.runs")} one
      empty=${html`<${Empty} title=${t("job.noRuns")} hint=${t("job.noRunsHint")} />`} />`;
}

/** @param {{ job: pb.Job, again: () => void }} props */
function Actions({ job, again }) {
  const { query } = useRoute();
  const [asking, setAsking] = useState(query.get("from") ? "backfill" : "");
  const name = job.name ?? "";
  const app = appOf(name);
  const close = () => {
    setAsking("");
    setQuery({ from: "", to: "" });
  };
  if (!can("OPERATOR", app)) return null;
  const resume = () => call("JobService/ResumeJob", { name }).then(again, sayFault);
  const remove = async () => {
    await call("JobService/DeleteJob", { name, etag: job.etag });
    say(t("job.deleted"));
    go(href("/jobs"));
  };
  return html`<${Button} kind="main" icon="play" onClick=${() => setAsking("trigger")}>
    ${t("do.trigger")}<//>
    ${job.state === "STATE_PAUSED"
      ? html`<${Button} icon="play" onClick=${resume}>${t("do.resume")}<//>`
      : html`<${Button} icon="pause" onClick=${() => setAsking("pause")}>${t("do.pause")}<//>`}
    ${can("EDITOR", app) && html`
      <${ButtonLink} icon="edit" href=${jobHref(name, "edit")}>${t("do.edit")}<//>
      <${ButtonLink} icon="copy" href=${href(["jobs", "new"], { copy: name })}>
        ${t("job.copy")}<//>`}
    <${Button} icon="back" onClick=${() => setAsking("backfill")}>${t("job.backfill")}<//>
    ${can("EDITOR", app) && html`
      <${Button} kind="danger" icon="trash" onClick=${() => setAsking("delete")}
        label=${t("do.delete")} />`}
    ${asking === "trigger" && html`<${Trigger} job=${job} close=${close} />`}
    ${asking === "pause" && html`<${Pause} job=${job} close=${close} again=${again} />`}
    ${asking === "backfill" && html`<${Backfill} job=${job} range=${query}
      close=${close} />`}
    ${asking === "delete" &&
      html`<${Ask} title=${t("job.deleteTitle", { name: `${app}/${name.split("/").pop()}` })}
      lead=${t("bulk.deleteLead")} verb=${t("do.delete")} danger close=${close} act=${remove} />`}`;
}
