// Who looks at the console, and what they may do.
import { call, guardBy, onUnauthenticated } from "./rpc.js";
import { store } from "./store.js";

/**
 * "away": nobody answers; "expired": the password must be changed before anything else.
 * @typedef {object} Session
 * @property {"asking" | "away" | "out" | "expired" | "in"} state
 * @property {string} principal
 * @property {string} displayName
 * @property {pb.Grant[]} grants
 * @property {import("./rpc.js").RpcError} [error] why one is out
 */

const RANKS = ["ROLE_UNSPECIFIED", "ROLE_VIEWER", "ROLE_OPERATOR", "ROLE_EDITOR", "ROLE_ADMIN"];
/** @type {Omit<Session, "state">} */
const NOBODY = { principal: "", displayName: "", grants: [] };

export const session = store(/** @type {Session} */ ({ state: "asking", ...NOBODY }));

onUnauthenticated((error) => {
  if (session.get().state === "in") session.set({ state: "out", ...NOBODY, error });
});

/** A server that does not answer is asked again after this time. */
const AGAIN_MS = 3000;

/** Asks the server who is calling, until it answers. */
export async function begin() {
  try {
    await enter();
  } catch (error) {
    const { code } = /** @type {import("./rpc.js").RpcError} */ (error);
    const away = code === "unreachable" || code === "unavailable";
    session.set({ state: away ? "away" : "out", ...NOBODY });
    if (away) setTimeout(() => session.get().state === "away" && begin(), AGAIN_MS);
  }
}

async function enter() {
  /** @type {pb.WhoAmIResponse} */
  const me = await call("IdentityService/WhoAmI");
  guardBy(me.csrfToken);
  session.set({
    state: me.passwordExpired ? "expired" : "in",
    principal: me.principal ?? "",
    displayName: me.displayName ?? "",
    grants: me.grants ?? [],
  });
}

/** @param {{ userId: string, password: string } | { apiToken: string }} credential */
export async function signIn(credential) {
  /** @type {pb.LoginResponse} */
  const answer = await call("IdentityService/Login", { ...credential, cookie: true });
  guardBy(answer.csrfToken);
  await enter();
}

/**
 * Gives the viewer another password.
 * @param {string} currentPassword
 * @param {string} password
 */
export async function changePassword(currentPassword, password) {
  const user = { name: session.get().principal };
  await call("IdentityService/UpdateUser", { user, currentPassword, password });
  await enter();
}

export async function signOut() {
  try {
    await call("IdentityService/Logout");
  } finally {
    guardBy("");
    session.set({ state: "out", ...NOBODY });
  }
}

/**
 * Whether the viewer has the role in the app; without an app, in some app; with "*", in all.
 * @param {"VIEWER" | "OPERATOR" | "EDITOR" | "ADMIN"} role
 * @param {string} [app]
 */
export function can(role, app) {
  const wanted = RANKS.indexOf(`ROLE_${role}`);
  return session.get().grants.some((grant) => {
    const here = app === undefined || grant.app === "*" || grant.app === app;
    return here && RANKS.indexOf(grant.role ?? "") >= wanted;
  });
}
