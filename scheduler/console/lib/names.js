// Resource names, such as apps/billing/jobs/report, and texts of filters.

/** The app of a name. @param {string} name */
export const appOf = (name) => name.split("/")[1] ?? "";
/** The last part of a name. @param {string | undefined} name */
export const idOf = (name) => (name ?? "").split("/").pop() ?? "";
/** App and id, as people write it. @param {string | undefined} name */
export const shortOf = (name) => (name ? `${appOf(name)}/${idOf(name)}` : "");
/** The parent of a list: one app, or all. @param {string | null | undefined} app */
export const parentOf = (app) => `apps/${app || "-"}`;

/** A text as a value in a filter. @param {string} text */
export const quoted = (text) => `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`;

/** Conditions that must all hold. @param {...(string | false | null | undefined)} parts */
export const allOf = (...parts) => parts.filter(Boolean).join(" AND ");

/**
 * One of these values of a field; nothing when there are none.
 * @param {string} field
 * @param {string[]} values
 */
export function oneOf(field, values) {
  if (values.length === 0) return "";
  const all = values.map((value) => `${field} = ${quoted(value)}`);
  return all.length === 1 ? all[0] : `(${all.join(" OR ")})`;
}

/** A fresh id for a call that may be repeated. */
export function requestId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
