// People who sign in.
import { html, useState } from "../../lib/dom.js";
import { t } from "../../lib/i18n.js";
import { useList } from "../../lib/list.js";
import { idOf, requestId } from "../../lib/names.js";
import { call } from "../../lib/rpc.js";
import { session } from "../../lib/session.js";
import { useStore } from "../../lib/store.js";
import { Button, Empty } from "../../parts/basics.js";
import { Ask } from "../../parts/dialog.js";
import { TextField, TickField } from "../../parts/form.js";
import { Table } from "../../parts/table.js";
import { When, ZoneNote } from "../../parts/when.js";
import { GrantFields, Grants } from "./grants.js";

export function Users() {
  const list = useList({ method: "IdentityService/ListUsers", body: {}, field: "users" });
  const [editing, setEditing] = useState(/** @type {pb.User | null} */ (null));
  const [gone, setGone] = useState(/** @type {pb.User | null} */ (null));
  const { principal } = useStore(session);
  const fresh = () => setEditing({ grants: [{ app: "*", role: "ROLE_VIEWER" }] });
  const remove = () => call("IdentityService/DeleteUser", { name: gone?.name }).then(() =>
    list.remove([gone?.name ?? ""]));
  const add = html`<${Button} kind="main" icon="plus" onClick=${fresh}>${t("user.new")}<//>`;
  /** @type {import("../../parts/table.js").Column<pb.User>[]} */
  const columns = [
    { id: "name", label: t("word.user"), class: "first", cell: (user) =>
      html`<span class="name">${idOf(user.name)}</span>
      ${user.name === principal && html` <span class="tag">${t("user.you")}</span>`}
      ${user.displayName && html`<span class="under">${user.displayName}</span>`}` },
    { id: "state", label: t("word.state"), cell: (user) => user.disabled
      ? html`<span class="state tone-off">${t("user.barred")}</span>` :
        t(user.passwordExpired ? "user.mustChange" : "user.active") },
    { id: "grants", label: t("grant.title"), cell: (user) =>
      html`<${Grants} grants=${user.grants} />` },
    { id: "email", label: t("user.email"), cell: (user) => user.email },
    { id: "login", label: t("user.lastLogin"), cell: (user) =>
      html`<${When} at=${user.lastLoginTime} bare rel />` },
    { id: "do", label: "", class: "do", cell: (user) => html`<span class="row">
      <${Button} kind="quiet" icon="edit" label=${t("do.edit")} onClick=${() => setEditing(user)} />
      ${user.name !== principal &&
        html`<${Button} kind="quiet" icon="trash" label=${t("do.delete")}
          onClick=${() => setGone(user)} />`}</span>` },
  ];
  return html`<div class="filters"><${ZoneNote} /><span class="grow"></span>${add}</div>
    <${Table} label=${t("access.users")} list=${list} columns=${columns}
      empty=${html`<${Empty} title=${t("users.none")} hint=${t("users.noneHint")}>${add}<//>`} />
    ${editing && html`<${UserForm} user=${editing} close=${() => setEditing(null)}
      done=${() => list.reload()} />`}
    ${gone && html`<${Ask} title=${t("user.deleteTitle", { name: idOf(gone.name) })}
      lead=${t("user.deleteLead")}
      verb=${t("do.delete")} danger close=${() => setGone(null)} act=${remove} />`}`;
}

/** @param {{ user: pb.User, close: () => void, done: () => void }} props */
function UserForm({ user: from, close, done }) {
  const [user, setUser] = useState(from);
  const [id, setId] = useState(idOf(from.name));
  const [password, setPassword] = useState("");
  /** @param {Partial<pb.User>} more */
  const set = (more) => setUser((before) => ({ ...before, ...more }));
  const act = async () => {
    await (from.name
      ? call("IdentityService/UpdateUser",
        { user, password, updateMask: "email,displayName,grants,disabled" })
      : call("IdentityService/CreateUser", { userId: id, user, password, requestId: requestId() }));
    done();
  };
  return html`<${Ask} title=${from.name ? t("user.edit", { name: idOf(from.name) }) :
    t("user.new")} verb=${t("do.save")}
    close=${close} act=${act}>
    ${!from.name && html`<${TextField} label=${t("user.id")} value=${id} change=${setId} must mono
      />`}
    <${TextField} label=${t("form.displayName")} value=${user.displayName ?? ""}
      change=${(/** @type {string} */ displayName) => set({ displayName })} />
    <${TextField} label=${t("user.email")} value=${user.email ?? ""}
      change=${(/** @type {string} */ email) => set({ email })} />
    <${TextField} label=${t(from.name ? "user.newPassword" : "user.firstPassword")}
      value=${password} change=${setPassword}
      type="password" hint=${t("user.passwordHint")} must=${!from.name} />
    ${from.name && html`<${TickField} label=${t("user.disabled")} value=${user.disabled ?? false}
      change=${(/** @type {boolean} */ disabled) => set({ disabled })} />`}
    <${GrantFields} grants=${user.grants ?? []}
      change=${(/** @type {pb.Grant[]} */ grants) => set({ grants })} /><//>`;
}
