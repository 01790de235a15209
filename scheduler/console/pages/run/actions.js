// What can be done with a run.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { appOf, requestId } from "../../lib/names.js";
import { jsonPayload, textOf } from "../../lib/payload.js";
import { go } from "../../lib/router.js";
import { call } from "../../lib/rpc.js";
import { isOpen, stateOf } from "../../lib/runs.js";
import { can } from "../../lib/session.js";
import { Button } from "../../parts/basics.js";
import { Ask, say, sayFault } from "../../parts/dialog.js";
import { valueOf } from "../../parts/form.js";
import { Params } from "../../parts/params.js";
import { runHref } from "../../parts/state.js";

/** @param {{ run: pb.Run, job: pb.Job | null | undefined, again: () => void }} props */
export function RunActions({ run, job, again }) {
  const [asking, setAsking] = useState("");
  const [busy, setBusy] = useState(false);
  const name = run.name ?? "";
  if (!can("OPERATOR", appOf(name))) return null;
  const close = () => setAsking("");
  /** @param {pb.Payload} [params] */
  const rerun = async (params) => {
    /** @type {pb.Run} */
    const made = await call("RunService/RerunRun", { name, params, requestId: requestId() });
    say(t("run.rerunMade"));
    go(runHref(made.name ?? ""));
  };
  const retry = async () => {
    setBusy(true);
    await rerun().catch(sayFault);
    setBusy(false);
  };
  if (isOpen(stateOf(run.state))) {
    return html`<${Button} kind="danger" icon="off" disabled=${stateOf(run.state) === "CANCELING"}
        onClick=${() => setAsking("cancel")}>${t("run.cancel")}<//>
      ${asking === "cancel" && html`<${Cancel} name=${name} close=${close} again=${again} />`}`;
  }
  return html`<${Button} kind="main" icon="refresh" busy=${busy} onClick=${retry}
      disabled=${job === null} title=${job === null ? t("run.jobGone") : undefined}>
        ${t("run.rerun")}<//>
    <${Button} icon="edit" onClick=${() => setAsking("params")} disabled=${!job}>
      ${t("run.rerunWith")}<//>
    ${asking === "params" && job &&
      html`<${RerunWith} run=${run} job=${job} close=${close} rerun=${rerun} />`}`;
}

/** @param {{ name: string, close: () => void, again: () => void }} props */
function Cancel({ name, close, again }) {
  const [reason, setReason] = useState("");
  const act = async () => {
    await call("RunService/CancelRun", { name, reason });
    again();
  };
  return html`<${Ask} title=${t("run.cancelTitle")} lead=${t("run.cancelLead")}
    verb=${t("run.cancel")} danger
    close=${close} act=${act}>
    <label class="field"><span>${t("word.reason")}</span><input value=${reason} maxlength="256"
      onInput=${(/** @type {Event} */ e) =>
        setReason(valueOf(e))} /></label><//>`;
}

/**
 * @param {{
 *   run: pb.Run, job: pb.Job, close: () => void, rerun: (params: pb.Payload) => Promise<void>,
 * }} props
 */
function RerunWith({ run, job, close, rerun }) {
  const [text, setText] = useState(textOf(run.params) ?? "{}");
  const [fault, setFault] = useState("");
  return html`<${Ask} title=${t("run.rerunWith")} verb=${t("run.rerun")} close=${close} wide
    off=${fault !== ""}
    act=${() => rerun(jsonPayload(text))}>
    <${Params} app=${appOf(run.name ?? "")} handler=${job.handler ?? ""} text=${text}
      change=${setText} tell=${setFault} /><//>`;
}
