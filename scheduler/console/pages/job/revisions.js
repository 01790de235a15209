// Earlier versions of a job: who changed what, and back again.
import { html, useState } from "../../lib/dom.js";
import { changes } from "../../lib/diff.js";
import { t } from "../../lib/i18n.js";
import { useList } from "../../lib/list.js";
import { appOf } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { can } from "../../lib/session.js";
import { Button, Fault, Loading, Panel } from "../../parts/basics.js";
import { Ask, say } from "../../parts/dialog.js";
import { Person } from "../../parts/person.js";
import { When, ZoneNote } from "../../parts/when.js";

/** @param {{ job: pb.Job, again: () => void }} props */
export function Revisions({ job, again }) {
  const list = useList({
    method: "JobService/ListJobRevisions",
    body: { name: job.name },
    field: "jobs",
    idOf: (/** @type {pb.Job} */ one) => String(one.revision),
  });
  const [back, setBack] = useState(/** @type {pb.Job | null} */ (null));
  const rows = /** @type {pb.Job[]} */ (list.rows);
  if (list.error && rows.length === 0) return html`<${Fault} error=${list.error}
    again=${() => list.reload()} />`;
  if (rows.length === 0) return html`<${Loading} />`;
  const rollback = async () => {
    await call("JobService/RollbackJob",
      { name: job.name, revision: back?.revision, etag: job.etag });
    say(t("revision.back", { n: Number(back?.revision) }));
    again();
    list.reload();
  };
  return html`<div class="filters"><${ZoneNote} /></div>
    <ol class="revisions">${rows.map((one, i) => html`<li key=${one.revision}><${Panel}
      title=${html`${t("revision.n", { n: Number(one.revision) })}
        ${one.revision === job.revision &&
          html` <span class="tag tone-ok">${t("revision.current")}</span>`}`}
      aside=${html`<span class="minor">
        <${When} at=${one.updateTime} bare rel />${" · "}
        <${Person} name=${one.updateBy} /></span>
        ${one.revision !== job.revision && can("EDITOR", appOf(job.name ?? "")) && html`
          <${Button} icon="back" onClick=${() => setBack(one)}>${t("revision.rollback")}<//>`}`}>
      ${rows[i + 1]
        ? html`<${Diff} before=${rows[i + 1]} after=${one} />`
        : html`<p class="none">${t(list.next ? "revision.earlier" : "revision.first")}</p>`}<//>
          </li>`)}</ol>
    ${list.next && html`<${Button} busy=${list.loading} onClick=${() => list.more()}>
      ${t("list.more")}<//>`}
    ${back && html`<${Ask} title=${t("revision.backTitle", { n: Number(back.revision) })}
      lead=${t("revision.backLead")}
      verb=${t("revision.rollback")} close=${() => setBack(null)} act=${rollback} wide>
      <${Diff} before=${job} after=${back} /><//>`}`;
}

/** @param {{ before: pb.Job, after: pb.Job }} props */
function Diff({ before, after }) {
  const all = changes(before, after);
  if (all.length === 0) return html`<p class="none">${t("revision.same")}</p>`;
  return html`<table class="diff"><tbody>${all.map((one) => html`<tr key=${one.path}>
    <th scope="row" class="mono">${one.path}</th>
    <td>${one.before !== undefined && html`<del class="mono">${one.before}</del>`}</td>
    <td>${one.after !== undefined && html`<ins class="mono">${one.after}</ins>`}</td>
      </tr>`)}</tbody></table>`;
}
