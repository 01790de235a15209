// Streams of the contract: lines of JSON, taken up again where they broke off.
//
// A browser has six connections to a server over HTTP/1.1, for all its tabs together: a tab that
// nobody sees holds none, and goes on from its last mark when it is looked at again.
import { RpcError, post, toError } from "./rpc.js";

const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 15_000;
/** The server says something each 15 s: a stream that is silent for longer is dead. */
const SILENCE_MAX_MS = 45_000;

/**
 * Reads one stream to its end.
 * @param {string} method
 * @param {object} body
 * @param {(message: any) => void} take
 * @param {AbortController} stop
 */
async function read(method, body, take, stop) {
  let watch = 0;
  const heard = () => {
    clearTimeout(watch);
    watch = window.setTimeout(() => stop.abort(), SILENCE_MAX_MS);
  };
  heard();
  try {
    const response = await post(method, body, stop.signal);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    while (reader) {
      const { value, done } = await reader.read();
      if (done) break;
      heard();
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (!line) continue;
        const message = JSON.parse(line);
        if (message.error?.code) throw toError(message.error);
        take(message);
      }
    }
  } finally {
    clearTimeout(watch);
  }
}

/**
 * @typedef {object} Following
 * @property {string} method
 * @property {() => object} body of the next request, with the mark of what was read
 * @property {(message: any) => void} take
 * @property {(state: "open" | "waiting", error?: RpcError) => void} [tell]
 * @property {() => boolean} [over] whether no more will come
 */

/**
 * Follows a stream until the returned function is called, over breaks and restarts.
 * @param {Following} of
 * @returns {() => void}
 */
export function follow(of) {
  let ended = false;
  let wait = RETRY_FIRST_MS;
  let timer = 0;
  /** @type {AbortController | undefined} */
  let current;

  const attempt = async () => {
    if (ended || current || document.hidden) return;
    const stop = new AbortController();
    current = stop;
    try {
      await read(of.method, of.body(), (message) => {
        wait = RETRY_FIRST_MS;
        of.tell?.("open");
        if (!ended) of.take(message);
      }, stop);
    } catch (error) {
      if (!ended && error instanceof RpcError) {
        of.tell?.("waiting", error);
        if (isFinal(error)) ended = true;
      }
    }
    if (current === stop) current = undefined;
    if (ended || of.over?.() || document.hidden) return;
    // By a random share less, so that many pages do not come back at once.
    timer = window.setTimeout(attempt, wait * (0.5 + Math.random() / 2));
    wait = Math.min(wait * 2, RETRY_MAX_MS);
  };

  const seen = () => {
    clearTimeout(timer);
    if (document.hidden) {
      current?.abort();
      current = undefined;
    } else if (!of.over?.()) {
      wait = RETRY_FIRST_MS;
      attempt();
    }
  };
  document.addEventListener("visibilitychange", seen);
  attempt();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
    current?.abort();
  };
}

/** Whether asking again can't help. @param {RpcError} error */
function isFinal(error) {
  const final = ["unauthenticated", "permission_denied", "not_found", "invalid_argument"];
  return final.includes(error.code);
}

/**
 * Follows the changes of runs.
 * @param {{ parent: string, filter?: string, view?: string }} request
 * @param {{
 *   take: (type: string, run: pb.Run | undefined) => void,
 *   tell?: (state: "open" | "waiting", error?: RpcError) => void,
 * }} hear
 */
export function watchRuns(request, hear) {
  let resumeToken = "";
  return follow({
    method: "RunService/WatchRuns",
    body: () => ({ ...request, resumeToken }),
    take(/** @type {pb.WatchRunsResponse} */ event) {
      resumeToken = event.resumeToken || resumeToken;
      hear.take((event.type ?? "").replace("TYPE_", ""), event.run);
    },
    tell: hear.tell,
  });
}
