// The table of all lists: cursor by keyboard, choice of rows, more rows at the end.
import { cls, html, useEffect, useRef, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { useKeys } from "../lib/keys.js";
import { go } from "../lib/router.js";
import { Button, Fault, Loading } from "./basics.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} id
 * @property {any} label
 * @property {(row: T) => any} cell
 * @property {string} [class]
 */

/**
 * @param {{
 *   label: string, list: any, columns: Column<any>[], idOf?: (row: any) => string,
 *   hrefOf?: (row: any) => string, chosen?: Set<string>, choose?: (names: Set<string>) => void,
 *   empty: any, rowClass?: (row: any) => string,
 * }} props
 */
export function Table(props) {
  const { label, list, columns, hrefOf, chosen, choose, empty, rowClass } = props;
  const idOf = props.idOf ?? ((/** @type {any} */ row) => row.name);
  const { rows } = list;
  const { at, body, keys } = useCursor(rows.length);
  useKeys({
    ...keys,
    Enter: () => rows[at] && hrefOf && go(hrefOf(rows[at])),
    x: () => rows[at] && toggle(idOf(rows[at])),
  });
  /** @param {string} name */
  const toggle = (name) => {
    if (!choose || !chosen) return;
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    choose(next);
  };
  const all = rows.length > 0 && rows.every((/** @type {any} */ row) => chosen?.has(idOf(row)));
  const toggleAll = () => choose?.(new Set(all ? [] : rows.map(idOf)));

  // A list that leaves rows out may have none of the first ones, and some further on.
  if (rows.length === 0 && !list.next) {
    if (list.error) return html`<${Fault} error=${list.error} again=${() => list.reload()} />`;
    return list.loading ? html`<${Loading} />` : empty;
  }
  return html`<div class="table-box">
    ${list.fresh.length > 0 && html`<button type="button" class="fresh" onClick=${list.showFresh}>
      ${t("list.fresh", { n: list.fresh.length })}</button>`}
    <${Fault} error=${list.error} again=${() => list.reload()} />
    <table class="list" aria-label=${label}>
      <thead><tr>
        ${choose && html`<th class="choose"><label class="box"><input type="checkbox" checked=${all}
          onChange=${toggleAll} aria-label=${t("list.chooseAll")} /></label></th>`}
        ${columns.map((column) => html`<th key=${column.id} class=${column.class} scope="col">
          ${column.label}</th>`)}
      </tr></thead>
      <tbody ref=${body}>${rows.map((/** @type {any} */ row, /** @type {number} */ i) => {
        const id = idOf(row);
        const on = chosen?.has(id) ?? false;
        return html`<tr key=${id} class=${cls(i === at && "at", on && "on", rowClass?.(row))}>
          ${choose && html`<td class="choose"><label class="box">
            <input type="checkbox" checked=${on}
            onChange=${() => toggle(id)} aria-label=${t("list.choose", { name: id })} /></label>
              </td>`}
          ${columns.map((column) => html`<td key=${column.id} class=${column.class}
            data-label=${typeof column.label === "string" ? column.label : ""}>
            ${column.cell(row)}</td>`)}</tr>`;
      })}</tbody>
    </table>
    <${More} list=${list} /></div>`;
}

/** The end of a list: more of it comes when it is reached. @param {{ list: any }} props */
function More({ list }) {
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  const latest = useRef(list);
  latest.current = list;
  useEffect(() => {
    const seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) latest.current.more();
    }, { rootMargin: "600px" });
    if (end.current) seen.observe(end.current);
    return () => seen.disconnect();
  }, [list.next]);
  return html`<div class="list-end" ref=${end}>
    ${list.next
      ? html`<${Button} busy=${list.loading} onClick=${() => list.more()}>${t("list.more")}<//>`
      : html`<span>${t("list.all", { n: list.rows.length })}</span>`}</div>`;
}

/** @param {number} count */
function useCursor(count) {
  const [at, setAt] = useState(-1);
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  /** @param {number} to */
  const move = (to) => {
    const next = Math.max(0, Math.min(count - 1, to));
    setAt(next);
    body.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    j: () => move(at + 1),
    ArrowDown: () => move(at + 1),
    k: () => move(at - 1),
    ArrowUp: () => move(at - 1),
  };
  return { at, body, keys };
}
