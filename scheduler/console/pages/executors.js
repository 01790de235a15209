// The processes that run the work.
import { html, useMemo } from "../lib/dom.js";
import { useEvery } from "../lib/every.js";
import { number, t } from "../lib/i18n.js";
import { useList } from "../lib/list.js";
import { allOf, appOf, idOf, parentOf, quoted } from "../lib/names.js";
import { href, useRoute } from "../lib/router.js";
import { can } from "../lib/session.js";
import { ButtonLink, Empty, PageHead } from "../parts/basics.js";
import { ClearFilters, Pick, PickApp, Search } from "../parts/filters.js";
import { Slots } from "../parts/meter.js";
import { Labels, Life, executorHref } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { When, ZoneNote } from "../parts/when.js";

const FILTERS = ["q", "app", "state", "cordoned", "handler", "label"];
const LIVE_MS = 5000;

/** @param {URLSearchParams} query */
function filterOf(query) {
  /** @param {string} name */
  const has = (name) => query.get(name) ?? "";
  const [key, ...value] = has("label").split("=");
  return allOf(
    has("q") && `name : ${quoted(has("q"))}`,
    has("state") && `state = ${quoted(has("state"))}`,
    has("cordoned") && `cordoned = ${quoted(has("cordoned"))}`,
    has("handler") && `handler : ${quoted(has("handler"))}`,
    key && `labels.${key} : ${quoted(value.join("=") || "*")}`,
  );
}

export function Executors() {
  const { query } = useRoute();
  const body = { parent: parentOf(query.get("app")), filter: filterOf(query) };
  const list = useList({ method: "FleetService/ListExecutors", body, field: "executors",
    one: "FleetService/GetExecutor" });
  useEvery(LIVE_MS, () => list.refresh());
  const columns = useMemo(columnsOf, [t("word.executor")]);
  const filtered = FILTERS.some((name) => query.get(name));
  return html`<${PageHead} title=${t("page.executors")} />
    <div class="filters">
      <${Search} label=${t("executors.search")} />
      <${PickApp} />
      <${Pick} name="state" label=${t("word.state")}
        options=${["ONLINE", "SUSPECT", "DRAINING", "OFFLINE"].map((word) =>
          [word, t(`life.${word}`)])} />
      <${Pick} name="cordoned" label=${t("executor.cordoned")}
        options=${[["true", t("form.yes")], ["false", t("form.no")]]} />
      <${Search} name="handler" label=${t("word.handler")} main=${false} />
      <${Search} name="label" label=${t("filter.label")} main=${false} />
      <${ClearFilters} names=${FILTERS} /><${ZoneNote} /></div>
    <${Table} label=${t("page.executors")} list=${list} columns=${columns}
      hrefOf=${(/** @type {pb.Executor} */ one) => executorHref(one.name ?? "")}
      empty=${filtered ? html`<${Empty} title=${t("executors.noMatch")}>
        <${ClearFilters} names=${FILTERS} /><//>`
        : html`<${NoExecutors} />`} />`;
}

/** What leads to the first executor. */
export const NoExecutors = () =>
  html`<${Empty} title=${t("executors.none")} hint=${t("executors.noneHint")}>
    ${can("ADMIN") && html`<${ButtonLink} href=${href("/access/tokens")} icon="next">
      ${t("access.tokens")}<//>`}<//>`;

/** @returns {import("../parts/table.js").Column<pb.Executor>[]} */
function columnsOf() {
  const share = (/** @type {number | undefined} */ value) =>
    (value === undefined ? "" : `${number(value * 100)} %`);
  return [
    { id: "name", label: t("word.executor"), class: "first", cell: (one) =>
      html`<a class="name" href=${executorHref(one.name ?? "")}>
      <span class="of">${appOf(one.name ?? "")}/</span>${idOf(one.name)}</a>` },
    { id: "state", label: t("word.state"), cell: (one) => html`<${Life} state=${one.state} />
      ${one.cordoned && html` <span class="tag tone-late">${t("executor.cordoned")}</span>`}` },
    { id: "slots", label: t("executor.slots"), cell: (one) =>
      html`<${Slots} of=${one} />` },
    { id: "running", label: t("home.running"), class: "num", cell: (one) =>
      number(one.running?.length ?? 0) },
    { id: "load", label: t("executor.load"), class: "num", cell: (one) => share(one.cpu) },
    { id: "memory", label: t("executor.memory"), class: "num wide-only", cell: (one) =>
      share(one.memory) },
    { id: "handlers", label: t("executor.handlers"), class: "num", cell: (one) => html`<span
      title=${one.handlers?.map((handler) => handler.name).join(", ")}>
        ${number(one.handlers?.length ?? 0)}</span>` },
    { id: "sdk", label: t("executor.sdk"), cell: (one) =>
      `${one.sdk?.language ?? ""} ${one.sdk?.sdkVersion ?? ""}` },
    { id: "labels", label: t("word.labels"), class: "wide-only", cell: (one) =>
      html`<${Labels} labels=${one.labels} />` },
    { id: "seen", label: t("executor.seen"), cell: (one) =>
      html`<${When} at=${one.lastHeartbeatTime} bare rel />` },
  ];
}
