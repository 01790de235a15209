// Pages and the state of their lists, in the part of the address behind #. So the console works
// under any path, and an address can be sent to somebody.
import { store, useStore } from "./store.js";

/** @typedef {{ path: string, parts: string[], query: URLSearchParams, key: string }} Route */

/** @returns {Route} */
function read() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const clean = path || "/";
  const parts = clean.split("/").filter(Boolean).map(decoded);
  return { path: clean, parts, query: new URLSearchParams(query), key: location.hash };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = store(read());
addEventListener("hashchange", () => route.set(read()));

export const useRoute = () => useStore(route);

/**
 * The address of a page within the console.
 * @param {string | string[]} path parts are escaped
 * @param {Record<string, string | undefined | null>} [query] empty values are left out
 */
export function href(path, query = {}) {
  const parts = Array.isArray(path) ? `/${path.map(encodeURIComponent).join("/")}` : path;
  const kept = Object.entries(query).filter(([, value]) => value);
  const search = new URLSearchParams(/** @type {[string, string][]} */ (kept)).toString();
  return `#${parts}${search ? `?${search}` : ""}`;
}

/** Goes to an address made by `href`. @param {string} address */
export function go(address) {
  location.hash = address;
}

/**
 * Changes the query of this page in place; the way back stays as it is.
 * @param {Record<string, string | undefined | null>} change
 */
export function setQuery(change) {
  const now = read();
  const query = Object.fromEntries(now.query);
  const address = href(now.path, { ...query, ...change });
  if (address === location.hash) return;
  history.replaceState(history.state, "", address);
  route.set(read());
}
