// Filters of a list; what is chosen stands in the address.
import { html, useEffect, useRef, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { setQuery, useRoute } from "../lib/router.js";
import { useAsk } from "../lib/list.js";
import { listAll } from "../lib/rpc.js";
import { can } from "../lib/session.js";
import { idOf } from "../lib/names.js";
import { Icon } from "./icon.js";

const TYPING_MS = 250;
const APPS_MAX = 5000;

/**
 * A field whose text goes into the address shortly after it was typed.
 * @param {{ name?: string, label: string, placeholder?: string, main?: boolean }} props
 */
export function Search({ name = "q", label, placeholder, main = true }) {
  const { query } = useRoute();
  const given = query.get(name) ?? "";
  const [text, setText] = useState(given);
  const timer = useRef(0);
  const sent = useRef(given);
  useEffect(() => {
    // Changed from outside, as by the way back.
    if (given !== sent.current) {
      sent.current = given;
      setText(given);
    }
  }, [given]);
  /** @param {Event} event */
  const onInput = (event) => {
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    setText(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      sent.current = value.trim();
      setQuery({ [name]: value.trim() });
    }, TYPING_MS);
  };
  return html`<label class=${main ? "search main" : "search"}>
    ${main && html`<${Icon} name="search" size=${14} />`}
    <span class="sr">${label}</span>
    <input type="search" value=${text} onInput=${onInput} placeholder=${placeholder ?? label}
      data-search=${main ? "" : undefined} spellcheck=${false} autocomplete="off" />
    ${main && html`<kbd aria-hidden="true">/</kbd>`}</label>`;
}

/**
 * A choice that goes into the address.
 * @param {{ name: string, label: string, options: [string, string][], any?: string }} props
 */
export function Pick({ name, label, options, any }) {
  const { query } = useRoute();
  const given = query.get(name) ?? "";
  const known = options.some(([value]) => value === given);
  /** @param {Event} event */
  const onChange = (event) =>
    setQuery({ [name]: /** @type {HTMLSelectElement} */ (event.target).value });
  return html`<label class=${given ? "pick on" : "pick"}><span class="sr">${label}</span>
    <select value=${given} onChange=${onChange} aria-label=${label}>
      <option value="">${any ?? t("filter.any", { label })}</option>
      ${!known && given && html`<option value=${given}>${given}</option>`}
      ${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select></label>`;
}

/** Ids of the apps that the viewer may see. */
export async function askApps() {
  const { items } = await listAll("ClusterService/ListApps", {}, "apps", APPS_MAX);
  return items.map((/** @type {any} */ app) => idOf(app.name));
}

/** The same; none until they are known. */
export const useApps = () => useAsk(askApps, []).value ?? [];

/**
 * Those in which the viewer may change things, as far as they can be told, and whether they were
 * asked for. A form begins then: the only app is in its field from the start, and does not come
 * into one in which somebody types already.
 * @returns {{ apps: string[] | undefined, asked: boolean }}
 */
export function useOwnApps() {
  const { value, error } = useAsk(askApps, []);
  return { apps: value?.filter((one) => can("EDITOR", one)), asked: Boolean(value || error) };
}

/** The only app there is to choose, if so. @param {string[] | undefined} apps */
export const onlyOf = (apps) => (apps?.length === 1 ? apps[0] : "");

/** The choice of an app. */
export function PickApp() {
  const apps = useApps();
  return html`<${Pick} name="app" label=${t("word.app")}
    options=${apps.map((app) => [app, app])} />`;
}

/** Takes all filters away. @param {{ names: string[] }} props */
export function ClearFilters({ names }) {
  const { query } = useRoute();
  if (!names.some((name) => query.get(name))) return null;
  const clear = () => setQuery(Object.fromEntries(names.map((name) => [name, ""])));
  return html`<button type="button" class="link" onClick=${clear}>${t("filter.clear")}</button>`;
}
