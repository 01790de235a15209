// Who did what, when, from where.
import { html } from "../../lib/dom.js";
import { useEvery } from "../../lib/every.js";
import { t } from "../../lib/i18n.js";
import { useList } from "../../lib/list.js";
import { allOf, oneOf, quoted } from "../../lib/names.js";
import { peopleNamed } from "../../lib/people.js";
import { useRoute } from "../../lib/router.js";
import { Empty } from "../../parts/basics.js";
import { ClearFilters, Pick, PickApp, Search } from "../../parts/filters.js";
import { Person } from "../../parts/person.js";
import { Table } from "../../parts/table.js";
import { When, ZoneNote } from "../../parts/when.js";

const LIVE_MS = 10_000;
const FILTERS = ["q", "principal", "method", "app", "code"];
/** Codes of answers, as gRPC numbers them. */
const CODES = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
    "UNIMPLEMENTED",
  "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"];

export function Audit() {
  const { query } = useRoute();
  /** @param {string} name @param {string} field @param {string} [op] */
  const is = (name, field, op = ":") => query.get(name) &&
    `${field} ${op} ${quoted(query.get(name) ?? "")}`;
  const who = query.get("principal");
  const filter = allOf(is("q", "resource"),
    who && (oneOf("principal", peopleNamed(who)) || is("principal", "principal")),
    is("method", "method"), is("app", "app", "="), is("code", "code", "="));
  const list = useList({ method: "ClusterService/ListAuditEvents", body: { filter },
    field: "events", idOf: keyOf });
  useEvery(LIVE_MS, () => list.refresh());
  /** @type {import("../../parts/table.js").Column<pb.AuditEvent>[]} */
  const columns = [
    { id: "time", label: t("alarm.time"), cell: (event) =>
      html`<${When} at=${event.time} bare rel />` },
    { id: "who", label: t("audit.who"), class: "first", cell: (event) =>
      html`<${Person} name=${event.principal} />` },
    { id: "what", label: t("audit.what"), cell: (event) =>
      html`<span class="mono">${event.method}</span>
      ${event.changedFields?.length ?
        html`<span class="under">${event.changedFields.join(", ")}</span>` : ""}` },
    { id: "on", label: t("audit.on"), cell: (event) =>
      html`<span class="mono"><${Person} name=${event.resource} /></span>` },
    { id: "result", label: t("audit.result"), cell: (event) => html`
      <span class=${`state tone-${event.code ? "bad" : "ok"}`}>
        ${CODES[event.code ?? 0] ?? event.code}</span>` },
    { id: "from", label: t("audit.from"), cell: (event) => event.peerAddress },
    { id: "request", label: t("audit.request"), class: "wide-only", cell: (event) =>
      html`<span class="mono of">${event.requestId}</span>` },
  ];
  return html`<div class="filters">
      <${Search} label=${t("audit.search")} />
      <${Search} name="principal" label=${t("audit.who")} main=${false} />
      <${Search} name="method" label=${t("audit.what")} main=${false} />
      <${PickApp} />
      <${Pick} name="code" label=${t("audit.result")}
        options=${CODES.map((word, i) => [String(i), word])} />
      <${ClearFilters} names=${FILTERS} /><${ZoneNote} /></div>
    <${Table} label=${t("access.audit")} list=${list} columns=${columns} idOf=${keyOf}
      empty=${html`<${Empty} title=${t("audit.none")} />`} />`;
}

/** @param {pb.AuditEvent} event */
const keyOf = (event) => event.id ?? `${event.time} ${event.requestId} ${event.method}`;
