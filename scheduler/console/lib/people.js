// Names of users and tokens as people know them. Those who may list them are told; others see the
// id, and of a token its end.
import { useEffect } from "./dom.js";
import { t } from "./i18n.js";
import { idOf } from "./names.js";
import { listAll } from "./rpc.js";
import { can, session } from "./session.js";
import { store, useStore } from "./store.js";

const LISTED_MAX = 5000;
/** A name that is not known is asked for again after this time. */
const FRESH_MS = 60_000;
const TOKEN_END = 6;
/** So many fit into a filter. */
const NAMED_MAX = 40;
const PRINCIPAL = /\b(?:users|tokens)\/[\w.-]*\w/g;

/** Display names by the names of users and tokens. */
const people = store(/** @type {Map<string, string>} */ (new Map()));
let askedAt = 0;
let askedBy = "";

async function ask() {
  const { principal, displayName } = session.get();
  askedAt = Date.now();
  askedBy = principal;
  /** @param {boolean} may @param {string} method @param {string} field */
  const list = async (may, method, field) => {
    if (!may) return [];
    const found = await listAll(method, {}, field, LISTED_MAX).catch(() => ({ items: [] }));
    return /** @type {(pb.User | pb.Token)[]} */ (found.items);
  };
  const [users, tokens] = await Promise.all([
    list(can("ADMIN", "*"), "IdentityService/ListUsers", "users"),
    list(can("ADMIN"), "IdentityService/ListTokens", "tokens"),
  ]);
  if (askedBy !== session.get().principal) return;
  const known = [...users, ...tokens, { name: principal, displayName }];
  people.set(new Map(known.flatMap(({ name = "", displayName: shown }) =>
    (shown ? [[name, shown]] : []))));
}

/**
 * A user or token as people know it.
 * @param {string} name such as users/ada
 * @param {Map<string, string>} known
 */
function shownOf(name, known) {
  const found = known.get(name);
  if (found) return found;
  const id = idOf(name);
  return name.startsWith("tokens/") ? `${t("word.token")} …${id.slice(-TOKEN_END)}` : id;
}

/** Users and tokens that a text names. @param {string} text */
const namedIn = (text) => text.match(PRINCIPAL) ?? [];

/**
 * The text with users and tokens as people know them.
 * @param {string} text
 * @returns {string}
 */
export function usePeople(text) {
  const known = useStore(people);
  const lacking = namedIn(text).some((name) => !known.has(name));
  const { principal } = useStore(session);
  useEffect(() => {
    if (lacking && (askedBy !== principal || Date.now() - askedAt > FRESH_MS)) ask();
  }, [text, lacking, principal]);
  const mine = askedBy === principal ? known : new Map();
  return text.replace(PRINCIPAL, (name) => shownOf(name, mine));
}

/** Names of those whose name or display name has the text. @param {string} text */
export function peopleNamed(text) {
  const wanted = text.toLowerCase();
  return [...people.get()]
    .filter((one) => one.some((part) => part.toLowerCase().includes(wanted)))
    .map(([name]) => name).slice(0, NAMED_MAX);
}
