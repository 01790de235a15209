// What to do with the chosen jobs. The list stays where it is.
import { html, useState } from "../../lib/dom.js";
import { each } from "../../lib/bulk.js";
import { t } from "../../lib/i18n.js";
import { appOf, requestId, shortOf } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { can } from "../../lib/session.js";
import { Button } from "../../parts/basics.js";
import { Ask, Dialog, say } from "../../parts/dialog.js";

/**
 * @param {{ chosen: Set<string>, choose: (names: Set<string>) => void, list: any }} props
 */
export function BulkBar({ chosen, choose, list }) {
  const [done, setDone] = useState(-1);
  const [failed, setFailed] = useState(/** @type {{ name: string, error: Error }[]} */ ([]));
  const [asking, setAsking] = useState(false);
  if (chosen.size === 0 && failed.length === 0) return null;
  const names = [...chosen];

  /** @param {string} verb @param {(name: string) => Promise<unknown>} act */
  const run = async (verb, act) => {
    setDone(0);
    const result = await each(names, act, setDone);
    setDone(-1);
    setFailed(result.failed);
    say(t(`bulk.${verb}`, { n: result.done.length }));
    return result;
  };
  /** @param {string} method */
  const change = (method) => (/** @type {string} */ name) =>
    call(`JobService/${method}`, { name }).then(list.patch);
  /** @param {string} name */
  const trigger = (name) => call("JobService/TriggerJob", { name, requestId: requestId() });
  const remove = async () => {
    const result = await run("deleted", (name) => call("JobService/DeleteJob", { name }));
    list.remove(result.done);
    choose(new Set(result.failed.map(({ name }) => name)));
  };
  const busy = done >= 0;
  const mayDelete = names.every((name) => can("EDITOR", appOf(name)));
  return html`<div class="bulk" role="region" aria-label=${t("bulk.title")}>
    <strong>${busy ? t("bulk.busy", { done, n: names.length }) :
      t("bulk.chosen", { n: names.length })}</strong>
    <${Button} icon="pause" disabled=${busy} onClick=${() => run("paused", change("PauseJob"))}>
      ${t("do.pause")}<//>
    <${Button} icon="play" disabled=${busy} onClick=${() => run("resumed", change("ResumeJob"))}>
      ${t("do.resume")}<//>
    <${Button} icon="runs" disabled=${busy} onClick=${() => run("triggered", trigger)}>
      ${t("do.trigger")}<//>
    ${mayDelete && html`<${Button} icon="trash" kind="danger" disabled=${busy}
      onClick=${() => setAsking(true)}>${t("do.delete")}<//>`}
    <${Button} kind="quiet" icon="close" label=${t("bulk.none")}
      onClick=${() => choose(new Set())} />
    ${asking && html`<${Ask} title=${t("bulk.deleteTitle", { n: names.length })}
      lead=${t("bulk.deleteLead")}
      verb=${t("do.delete")} danger close=${() => setAsking(false)} act=${remove}>
      <ul class="plain scroll">
        ${names.map((name) => html`<li key=${name} class="mono">${shortOf(name)}</li>`)}</ul><//>`}
    ${failed.length > 0 && html`<${Dialog} title=${t("bulk.failed", { n: failed.length })}
      close=${() => setFailed([])}><ul class="plain scroll">${failed.map(({ name, error }) =>
        html`<li key=${name}><b class="mono">${shortOf(name)}</b> ${error.message}</li>`)}</ul>
          <//>`}
  </div>`;
}
