// Payloads of the contract: bytes with a media type, JSON as a rule.

/** @param {string} base64 */
function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

/**
 * A payload as text; null when it is none.
 * @param {pb.Payload | undefined} payload
 * @returns {string | null}
 */
export function textOf(payload) {
  if (!payload?.data) return payload ? "" : null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(payload.data));
  } catch {
    return null;
  }
}

/**
 * A payload for people: JSON with indents, other text as it is, else its size.
 * @param {pb.Payload | undefined} payload
 * @returns {{ text: string, kind: "json" | "text" | "bytes" | "none" }}
 */
export function shown(payload) {
  if (!payload) return { text: "", kind: "none" };
  const text = textOf(payload);
  if (text === null) return { text: `${bytesOf(payload.data ?? "").length} B`, kind: "bytes" };
  try {
    return { text: JSON.stringify(JSON.parse(text), null, 2), kind: "json" };
  } catch {
    return { text, kind: "text" };
  }
}

/** JSON text as a payload. @param {string} text @returns {pb.Payload} */
export function jsonPayload(text) {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return { contentType: "application/json", data: btoa(binary) };
}

/** Why a text is no JSON; empty when it is. @param {string} text */
export function jsonFault(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
