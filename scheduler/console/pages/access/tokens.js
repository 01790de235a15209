// Tokens of programs and executors. A secret is shown once.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { useList } from "../../lib/list.js";
import { idOf, requestId } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { instant } from "../../lib/time.js";
import { Button, Empty } from "../../parts/basics.js";
import { Code } from "../../parts/code.js";
import { Ask, Dialog } from "../../parts/dialog.js";
import { NumberField, TextField, WordsField } from "../../parts/form.js";
import { Person } from "../../parts/person.js";
import { Table } from "../../parts/table.js";
import { When, ZoneNote } from "../../parts/when.js";
import { GrantFields, Grants, ROLES } from "./grants.js";

const DAY_MS = 86_400_000;
/** A file of the agent with one command, which the handler `shell` runs. */
const AGENT_CONFIG = `# agent.yaml
shell:
  commands:
    hello:
      program: /bin/echo
      args: ["hello"]`;

export function Tokens() {
  const list = useList({ method: "IdentityService/ListTokens", body: {}, field: "tokens" });
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState(/** @type {pb.CreateTokenResponse | null} */ (null));
  const [gone, setGone] = useState(/** @type {pb.Token | null} */ (null));
  const revoke = () => call("IdentityService/RevokeToken", { name: gone?.name }).then(
    (/** @type {any} */ token) => list.patch(token));
  const add = html`<${Button} kind="main" icon="plus" onClick=${() => setMaking(true)}>
    ${t("token.new")}<//>`;
  /** @type {import("../../parts/table.js").Column<pb.Token>[]} */
  const columns = [
    { id: "name", label: t("word.token"), class: "first", cell: (token) =>
      html`<span class="name">${token.displayName || idOf(token.name)}</span>
      <span class="under mono">${token.prefix}…</span>` },
    { id: "state", label: t("word.state"), cell: stateOf },
    { id: "grants", label: t("grant.title"), cell: (token) =>
      html`<${Grants} grants=${token.grants} />` },
    { id: "owner", label: t("token.owner"), cell: (token) =>
      html`<${Person} name=${token.owner} />` },
    { id: "created", label: t("job.created"), cell: (token) =>
      html`<${When} at=${token.createTime} bare />` },
    { id: "used", label: t("token.used"), cell: (token) =>
      html`<${When} at=${token.lastUsedTime} bare rel />` },
    { id: "do", label: "", class: "do", cell: (token) => !token.revokeTime && html`
      <${Button} kind="quiet" icon="trash" onClick=${() => setGone(token)}>
        ${t("token.revoke")}<//>` },
  ];
  return html`<div class="filters"><${ZoneNote} /><span class="grow"></span>${add}</div>
    <${Table} label=${t("access.tokens")} list=${list} columns=${columns}
      empty=${html`<${Empty} title=${t("tokens.none")}>${add}<//>`} />
    ${making && html`<${TokenForm} close=${() => setMaking(false)}
      done=${(/** @type {any} */ got) => { setMade(got); list.reload(); }} />`}
    ${made && html`<${Dialog} title=${t("token.made")} close=${() => setMade(null)}>
      <p>${t("token.once")}</p><${Code} text=${made.secret ?? ""} label=${t("token.secret")} />
      <${StartAgent} made=${made} />
      <footer class="row end"><${Button} kind="main" onClick=${() => setMade(null)}>
        ${t("token.kept")}<//></footer><//>`}
    ${gone && html`<${Ask} title=${t("token.revokeTitle",
      { name: gone.displayName || idOf(gone.name) })} lead=${t("token.revokeLead")}
      verb=${t("token.revoke")} danger close=${() => setGone(null)} act=${revoke} />`}`;
}

/** How an executor begins with its token. @param {{ made: pb.CreateTokenResponse }} props */
function StartAgent({ made }) {
  const grant = made.token?.grants?.find(({ role }) => role === "ROLE_EXECUTOR");
  if (!grant) return null;
  const app = grant.app === "*" ? "APP" : grant.app;
  const endpoint = new URL("./", document.baseURI).href.replace(/\/$/, "");
  return html`<p>${t("token.agent")}</p>
    <${Code} text=${AGENT_CONFIG} label="agent.yaml" />
    <${Code} label=${t("token.agent")} text=${`CLAWJOB_TOKEN=${made.secret} \\
  clawjob agent --config agent.yaml --endpoint ${endpoint} --app ${app}`} />`;
}

/** @param {pb.Token} token */
function stateOf(token) {
  if (token.revokeTime) return html`<span class="state tone-off">${t("token.revoked")}</span>`;
  if (instant(token.expireTime) < Date.now()) return html`<span class="state tone-off">
    ${t("token.expired")}</span>`;
  return html`<span class="state tone-ok">${t("token.holds")}</span>
    ${token.expireTime && html`<span class="under">
      ${t("token.until")} <${When} at=${token.expireTime} bare /></span>`}`;
}

/** @param {{ close: () => void, done: (made: pb.CreateTokenResponse) => void }} props */
function TokenForm({ close, done }) {
  const [token, setToken] = useState(
    /** @type {pb.Token} */ ({ grants: [{ app: "*", role: "ROLE_VIEWER" }] }));
  const [days, setDays] = useState(/** @type {number | undefined} */ (undefined));
  /** @param {Partial<pb.Token>} more */
  const set = (more) => setToken((before) => ({ ...before, ...more }));
  const forExecutor = token.grants?.some((grant) => grant.role === "ROLE_EXECUTOR");
  const act = async () => {
    const expireTime = days ? new Date(Date.now() + days * DAY_MS).toISOString() : undefined;
    done(await call("IdentityService/CreateToken",
      { token: { ...token, expireTime }, requestId: requestId() }));
  };
  return html`<${Ask} title=${t("token.new")} verb=${t("token.make")} close=${close} act=${act}>
    <${TextField} label=${t("token.what")} value=${token.displayName ?? ""} must
      change=${(/** @type {string} */ displayName) => set({ displayName })} />
    <${NumberField} label=${t("token.days")} hint=${t("token.daysHint")} value=${days}
      change=${setDays} />
    <${GrantFields} grants=${token.grants ?? []} roles=${[...ROLES, "EXECUTOR"]}
      change=${(/** @type {pb.Grant[]} */ grants) => set({ grants })} />
    ${forExecutor && html`
      <${WordsField} label=${t("token.ids")} hint=${t("token.idsHint")}
        value=${token.executorIdPatterns} placeholder="billing-*"
        change=${(/** @type {string[]} */ executorIdPatterns) => set({ executorIdPatterns })} />
      <${WordsField} label=${t("token.handlers")} hint=${t("token.idsHint")}
        value=${token.handlerPatterns} placeholder="nightly-*"
        change=${(/** @type {string[]} */ handlerPatterns) => set({ handlerPatterns })} />`}<//>`;
}
