// Fields of a form from a JSON Schema, as far as a form can show it.

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {"text" | "number" | "integer" | "boolean" | "choice" | "json"} kind
 * @property {string} title
 * @property {string} hint
 * @property {boolean} required
 * @property {string[]} choices
 * @property {string} placeholder
 */

const DEPTH_MAX = 8;

/**
 * The schema behind references and optional values.
 * @param {any} schema
 * @param {any} root
 * @param {number} [depth]
 * @returns {any}
 */
function plain(schema, root, depth = 0) {
  if (typeof schema !== "object" || schema === null || depth > DEPTH_MAX) return {};
  const own = { description: schema.description, default: schema.default };
  const kept = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined));
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/")) {
    const target = schema.$ref.slice(2).split("/")
      .reduce((/** @type {any} */ at, /** @type {string} */ part) => at?.[part], root);
    return { ...plain(target, root, depth + 1), ...kept };
  }
  const either = schema.anyOf ?? schema.oneOf ?? (schema.allOf?.length === 1 ? schema.allOf : null);
  if (Array.isArray(either)) {
    const some = either.filter((one) => one?.type !== "null");
    if (some.length === 1) return { ...plain(some[0], root, depth + 1), ...kept };
    if (some.every((one) => one?.const !== undefined)) {
      return { enum: some.map((one) => one.const), ...kept };
    }
  }
  return schema;
}

/**
 * @param {string | undefined} text a JSON Schema
 * @returns {Field[] | null} null when it describes no object of named fields
 */
export function fieldsOf(text) {
  /** @type {any} */
  let root;
  try {
    root = JSON.parse(text || "null");
  } catch {
    return null;
  }
  const top = plain(root, root);
  if (typeof top.properties !== "object" || top.properties === null) return null;
  const required = new Set(Array.isArray(top.required) ? top.required : []);
  return Object.entries(top.properties).map(([name, given]) => {
    const schema = plain(given, root);
    return {
      name,
      kind: kindOf(schema),
      title: typeof schema.title === "string" ? schema.title : "",
      hint: typeof schema.description === "string" ? schema.description : "",
      required: required.has(name),
      choices: Array.isArray(schema.enum) ?
        schema.enum.filter((/** @type {any} */ v) => v !== null).map(String) : [],
      placeholder: schema.default === undefined ? "" : JSON.stringify(schema.default),
    };
  });
}

/** @param {any} schema @returns {Field["kind"]} */
function kindOf(schema) {
  if (Array.isArray(schema.enum)) {
    return schema.enum.every((/** @type {any} */ v) => v === null || typeof v === "string") ?
      "choice" : "json";
  }
  const types = [schema.type].flat().filter((type) => type !== "null");
  switch (types.length === 1 ? types[0] : "") {
    case "string":
      return "text";
    case "number":
      return "number";
    case "integer":
      return "integer";
    case "boolean":
      return "boolean";
    default:
      return "json";
  }
}

/**
 * The names of fields that the schema wants and the value lacks.
 * @param {Field[]} fields
 * @param {any} value
 */
export const missing = (fields, value) =>
  fields.filter((field) => field.required && value?.[field.name] === undefined).map((field) =>
    field.name);
