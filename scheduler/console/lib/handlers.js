// What connected executors offer.
import { useAsk } from "./list.js";
import { parentOf } from "./names.js";
import { listAll } from "./rpc.js";

const HANDLERS_MAX = 2000;

/** @typedef {NonNullable<pb.ListHandlersResponse["handlers"]>[number]} Offer */

/** The handlers that executors of an app offer. @param {string} app */
export function useHandlers(app) {
  const { value } = useAsk(async () => {
    if (!/^[a-z0-9]/.test(app)) return [];
    try {
      const body = { parent: parentOf(app) };
      const list = await listAll("FleetService/ListHandlers", body, "handlers", HANDLERS_MAX);
      return /** @type {Offer[]} */ (list.items);
    } catch {
      // An app that is not there yet has none.
      return [];
    }
  }, [app]);
  return value;
}
