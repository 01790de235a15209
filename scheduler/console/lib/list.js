// A list of the contract, page by page, that stays where it is while somebody reads it.
import { each } from "./bulk.js";
import { useEffect, useRef, useState } from "./dom.js";
import { call } from "./rpc.js";

const PAGE = 50;
/** The most rows that one call gives. */
const PAGE_MAX = 1000;
/** Rows that are looked through at a time where some are left out, and pages of one step. */
const SIFTED = 200;
const PAGES_MAX = 20;
/** The most rows that a refresh looks at one by one, since the list does not have them any more. */
const LEFT_MAX = 50;
/** Lists that are remembered for the way back. */
const KEPT_MAX = 20;

/**
 * @template T
 * @typedef {object} Rows
 * @property {T[]} rows
 * @property {string} next token of the next page; empty at the end
 * @property {boolean} loading
 * @property {unknown} error
 * @property {T[]} fresh rows that came up since, not shown yet
 */

/** @type {Map<string, Rows<any>>} */
const kept = new Map();

/** @param {string} key @param {Rows<any>} rows */
function keep(key, rows) {
  kept.delete(key);
  kept.set(key, { ...rows, loading: false, fresh: [] });
  if (kept.size > KEPT_MAX) kept.delete(/** @type {string} */ (kept.keys().next().value));
}

/** @param {{ name?: string }} row */
const nameOf = (row) => row.name ?? "";

/** Forgets what was loaded, as after signing out. */
export const forgetLists = () => kept.clear();

/**
 * @template {object} T
 * @param {{
 *   method: string, body: object, field: string, count?: number, idOf?: (row: T) => string,
 *   keep?: (row: T) => boolean, one?: string,
 * }} of
 *   `count`: rows to begin with; `keep`: rows that are shown, where the filter lets in others;
 *   `one`: the method that gives a row by its name
 */
export function useList({ method, body, field, count = PAGE, idOf = nameOf, keep: wanted, one }) {
  const key = JSON.stringify([method, body, Boolean(wanted)]);
  /** @returns {Rows<T>} */
  const begin = () => kept.get(key) ??
    { rows: [], next: "", loading: true, error: null, fresh: [] };
  const [state, setState] = useState(begin);
  const now = useRef({ key, state });
  // The row that the last refresh looked at last, of those that the list does not have any more.
  const lookedTo = useRef("");
  // What was done to rows while a call was on its way, one map a call: its answer may be older.
  const done = useRef(/** @type {Set<Map<string, Partial<T> | null>>} */ (new Set()));
  /** @param {string} id @param {T | null} row */
  const note = (id, row) => done.current.forEach((since) => since.set(id,
    row && { ...since.get(id), ...row }));
  /**
   * Asks for rows; what was done to them meanwhile is in them.
   * @param {() => Promise<T[]>} ask
   * @returns {Promise<T[]>}
   */
  const newest = async (ask) => {
    const since = new Map();
    done.current.add(since);
    try {
      const rows = await ask();
      return rows.filter((row) => since.get(idOf(row)) !== null)
        .map((row) => ({ ...row, ...since.get(idOf(row)) }));
    } finally {
      done.current.delete(since);
    }
  };
  /** @param {Rows<T>} next @param {string} [of] */
  const put = (next, of = key) => {
    if (now.current.key !== of) return;
    now.current.state = next;
    keep(of, next);
    setState(next);
  };

  /**
   * @param {number} size
   * @param {string} pageToken
   * @param {AbortSignal} [signal]
   * @returns {Promise<{ rows: T[], next: string }>}
   */
  const fetchRows = async (size, pageToken, signal) => {
    let next = pageToken;
    const rows = await newest(async () => {
      /** @type {T[]} */
      const all = [];
      let pages = 0;
      do {
        const lacking = size - all.length;
        const pageSize = Math.min(PAGE_MAX, wanted ? Math.max(SIFTED, lacking) : lacking);
        /** @type {any} */
        const page = await call(method, { ...body, pageSize, pageToken: next }, signal);
        const got = /** @type {T[]} */ (page[field] ?? []);
        all.push(...(wanted ? got.filter(wanted) : got));
        next = page.nextPageToken ?? "";
        pages += 1;
      } while (next && all.length < size && pages < PAGES_MAX);
      return all;
    });
    return { rows, next };
  };

  /** Loads it anew, from the top. @param {AbortSignal} [signal] */
  const reload = async (signal) => {
    const before = now.current.state;
    put({ ...before, loading: true });
    try {
      const size = Math.max(count, before.rows.length);
      const got = await fetchRows(size, "", signal);
      put({ ...got, loading: false, error: null, fresh: [] });
    } catch (error) {
      if (!signal?.aborted) put({ ...now.current.state, loading: false, error });
    }
  };

  useEffect(() => {
    const stop = new AbortController();
    const first = begin();
    now.current = { key, state: first };
    setState(first);
    reload(stop.signal);
    return () => stop.abort();
  }, [key]);

  /**
   * Brings the rows up to date where they stand; what is new waits in `fresh`.
   * @param {AbortSignal} [signal]
   */
  const refresh = async (signal) => {
    const before = now.current.state;
    if (before.loading && before.rows.length === 0) return;
    try {
      const got = await fetchRows(Math.max(count, before.rows.length), "", signal);
      const found = new Map(got.rows.map((row) => [idOf(row), row]));
      const known = new Set(now.current.state.rows.map(idOf));
      const rows = now.current.state.rows.map((row) => found.get(idOf(row)) ?? row);
      const fresh = got.rows.filter((row) => !known.has(idOf(row)));
      const empty = rows.length === 0;
      put(empty
        ? { ...got, loading: false, error: null, fresh: [] }
        : { ...now.current.state, rows, fresh, error: null });
      const left = rows.filter((row) => !found.has(idOf(row)));
      // Each time the next of them, so that all are looked at in the end.
      const from = left.findIndex((row) => idOf(row) === lookedTo.current) + 1;
      await lookAt([...left.slice(from), ...left.slice(0, from)].slice(0, LEFT_MAX));
    } catch (error) {
      if (!signal?.aborted) put({ ...now.current.state, error });
    }
  };

  /** Rows that are none of the list's any more are shown as they are now. @param {T[]} left */
  const lookAt = async (left) => {
    if (!one || left.length === 0) return;
    lookedTo.current = idOf(left[left.length - 1]);
    await each(left.map(idOf), async (name) => {
      try {
        (await newest(async () => [await call(one, { name })])).forEach(patch);
      } catch (error) {
        if (/** @type {import("./rpc.js").RpcError} */ (error).code === "not_found") remove([name]);
      }
    });
  };

  const more = async () => {
    const before = now.current.state;
    if (!before.next || before.loading) return;
    put({ ...before, loading: true });
    try {
      const got = await fetchRows(PAGE, before.next);
      const known = new Set(now.current.state.rows.map(idOf));
      const added = got.rows.filter((row) => !known.has(idOf(row)));
      const rows = [...now.current.state.rows, ...added];
      put({ ...now.current.state, rows, next: got.next, loading: false, error: null });
    } catch (error) {
      put({ ...now.current.state, loading: false, error });
    }
  };

  /** Puts a row's new state where it stands. @param {T} row */
  const patch = (row) => {
    note(idOf(row), row);
    const { current } = now;
    const at = current.state.rows.findIndex((other) => idOf(other) === idOf(row));
    if (at < 0) return false;
    const rows = [...current.state.rows];
    rows[at] = { ...rows[at], ...row };
    put({ ...current.state, rows });
    return true;
  };

  /** A row that nobody has seen yet, or a newer state of one that waits. @param {T} row */
  const add = (row) => {
    const { state: at } = now.current;
    const others = at.fresh.filter((other) => idOf(other) !== idOf(row));
    put({ ...at, fresh: [row, ...others].slice(0, PAGE_MAX) });
  };

  /** @param {string[]} names */
  const remove = (names) => {
    const gone = new Set(names);
    gone.forEach((id) => note(id, null));
    const { state: at } = now.current;
    put({ ...at, rows: at.rows.filter((row) => !gone.has(idOf(row))) });
  };

  /** Shows what waited, at the top. */
  const showFresh = () => {
    const { state: at } = now.current;
    put({ ...at, rows: [...at.fresh, ...at.rows], fresh: [] });
  };

  return { ...state, reload, refresh, more, patch, add, remove, showFresh };
}

/**
 * A value that is asked for once and again each `everyMs` while somebody looks.
 * @template T
 * @param {() => Promise<T>} ask
 * @param {any[]} inputs it is asked for anew when they change; what there was stays on show
 *   meanwhile, unless the first of them is another
 * @param {number} [everyMs]
 * @returns {{ value: T | undefined, error: unknown, again: () => Promise<void> }}
 */
export function useAsk(ask, inputs, everyMs = 0) {
  /** @type {{ value: T | undefined, error: unknown }} */
  const none = { value: undefined, error: null };
  const [state, setState] = useState(none);
  const turn = useRef(0);
  const again = async () => {
    turn.current += 1;
    const mine = turn.current;
    try {
      const value = await ask();
      if (mine === turn.current) setState({ value, error: null });
    } catch (error) {
      if (mine === turn.current) setState((before) => ({ ...before, error }));
    }
  };
  const first = useRef(inputs[0]);
  useEffect(() => {
    if (first.current !== inputs[0]) setState(none);
    first.current = inputs[0];
    again();
    const timer = everyMs && setInterval(() => document.hidden || again(), everyMs);
    return () => {
      turn.current += 1;
      clearInterval(timer);
    };
  }, inputs);
  return { ...state, again };
}
