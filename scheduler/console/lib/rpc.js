// Calls of the contract as JSON over POST.
import { told } from "./told.js";

/** With the session's cookie the server takes a change only beside this header. */
const GUARD_HEADER = "x-clawjob-csrf";

/** Where the contract is served: beside the page. */
const BASE = new URL("./", document.baseURI);

/** An error of a call, with what the server says about it. */
export class RpcError extends Error {
  /**
   * @param {string} code the contract's word, such as not_found; "unreachable" when nobody answered
   * @param {string} message
   * @param {{ reason?: string, fields?: FieldFault[], requestId?: string }} [more]
   */
  constructor(code, message, more = {}) {
    super(message);
    this.code = code;
    this.reason = more.reason ?? "";
    this.fields = more.fields ?? [];
    this.requestId = more.requestId ?? "";
  }
}

/** @typedef {{ field: string, description: string }} FieldFault */

/** @type {((error: RpcError) => void)[]} */
const unauthenticated = [];
/** Told when the server does not know the caller (any more). @param {(e: RpcError) => void} hear */
export const onUnauthenticated = (hear) => unauthenticated.push(hear);

let guard = "";
/** What the guard's header carries from now on. @param {string | undefined} token */
export function guardBy(token) {
  guard = token ?? "";
}

/**
 * Sends a request and gives its response, or throws what went wrong.
 * @param {string} method such as JobService/ListJobs
 * @param {object} body
 * @param {AbortSignal} [signal]
 */
export async function post(method, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { "content-type": "application/json" };
  if (guard) headers[GUARD_HEADER] = guard;
  let response;
  try {
    const url = new URL(`clawjob.v1.${method}`, BASE);
    const text = JSON.stringify(body);
    response = await fetch(url, { method: "POST", headers, body: text, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RpcError("unreachable", String(error));
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.code === "unauthenticated") unauthenticated.forEach((hear) => hear(error));
  throw error;
}

/**
 * Calls a method and gives its answer.
 * @template T
 * @param {string} method
 * @param {object} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function call(method, body = {}, signal) {
  const response = await post(method, body, signal);
  return response.json();
}

/** @param {Response} response */
async function errorOf(response) {
  try {
    return toError(await response.json(), response.headers.get("x-request-id") ?? "");
  } catch {
    // Not the scheduler's own answer: a proxy in between.
    return new RpcError("unreachable", `HTTP ${response.status}`);
  }
}

/**
 * @param {any} json `{code, message, details}`
 * @param {string} [requestId]
 */
export function toError(json, requestId = "") {
  const details = Array.isArray(json.details) ? json.details : [];
  /** @param {string} type */
  const of = (type) => details.find((/** @type {any} */ d) => d.type === type)?.debug ?? {};
  const fields = of("google.rpc.BadRequest").fieldViolations ?? [];
  return new RpcError(json.code ?? "unknown", told(json.message), {
    reason: of("google.rpc.ErrorInfo").reason,
    fields: fields.map((/** @type {FieldFault} */ { field, description }) =>
      ({ field, description: told(description) })),
    requestId: of("google.rpc.RequestInfo").requestId ?? requestId,
  });
}

/**
 * All items of a list, page by page, at most `max`.
 * @template T
 * @param {string} method
 * @param {any} body
 * @param {string} field that holds a page's items
 * @param {number} max
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ items: T[], more: boolean }>}
 */
export async function listAll(method, body, field, max, signal) {
  /** @type {T[]} */
  const items = [];
  let pageToken = "";
  do {
    const pageSize = Math.min(1000, max - items.length);
    /** @type {any} */
    const page = await call(method, { ...body, pageSize, pageToken }, signal);
    items.push(...(page[field] ?? []));
    pageToken = page.nextPageToken ?? "";
  } while (pageToken && items.length < max);
  return { items, more: pageToken !== "" };
}
