// Writes types/contract.d.ts, the messages of proto/ as the JSON bridge sends them, for the type
// check of the console. `node contract.js --check` fails when the file is not what proto/ says.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const PROTO = new URL("../../../proto/clawjob/v1/", import.meta.url);
const OUT = new URL("types/contract.d.ts", import.meta.url);

const PLAIN = {
  string: "string",
  bytes: "string",
  bool: "boolean",
  double: "number",
  float: "number",
  int32: "number",
  uint32: "number",
  // JSON has 64-bit numbers as texts.
  int64: "string",
  uint64: "string",
  "google.protobuf.Timestamp": "string",
  "google.protobuf.Duration": "string",
  "google.protobuf.FieldMask": "string",
};

/** @param {string} snake */
const camel = (snake) => snake.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

/** Interfaces of all messages. @returns {string} */
export function contract() {
  const text = readdirSync(PROTO)
    .filter((name) => name.endsWith(".proto"))
    .sort()
    .map((name) => readFileSync(new URL(name, PROTO), "utf8"))
    .join("\n")
    .replace(/\/\/.*$/gm, "");
  const enums = new Set([...text.matchAll(/\benum (\w+)/g)].map((found) => found[1]));
  /** @param {string} type */
  const typeOf = (type) => {
    const plain = /** @type {Record<string, string>} */ (PLAIN)[type];
    const last = type.split(".").pop() ?? type;
    return plain ?? (enums.has(last) ? "string" : last);
  };

  const out = ["// Made by contract.js from proto/; do not edit.", "declare namespace pb {"];
  /** @type {({ name: string, fields: string[] } | null)[]} */
  const open = [];
  for (const line of text.split("\n").map((raw) => raw.trim())) {
    const begins = /^(message|enum|service|oneof|rpc) ?(\w+)?.*\{(\})?$/.exec(line);
    const message = open.findLast((block) => block !== null);
    const field = /^(repeated |optional )?(map<\w+, [\w.]+>|[\w.]+) (\w+) = \d+/.exec(line);
    if (begins?.[3]) {
      if (begins[1] === "message") out.push(`  interface ${begins[2]} {}`);
    } else if (begins) {
      open.push(begins[1] === "message" ? { name: begins[2], fields: [] } : null);
    } else if (line.startsWith("}") && open.length > 0) {
      const ended = open.pop();
      if (ended) out.push(`  interface ${ended.name} {`, ...ended.fields, "  }");
    } else if (field && message && field[2] !== "option") {
      const map = /^map<\w+, ([\w.]+)>$/.exec(field[2]);
      const type = map ? `Record<string, ${typeOf(map[1])}>` : typeOf(field[2]);
      message.fields.push(`    ${camel(field[3])}?: ${type}${field[1] === "repeated " ? "[]" :
        ""};`);
    }
  }
  return `${[...out, "}"].join("\n")}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--check")) {
    if (readFileSync(OUT, "utf8") !== contract()) {
      console.error("types/contract.d.ts is not what proto/ says: run node contract.js");
      process.exit(1);
    }
  } else {
    writeFileSync(OUT, contract());
  }
}
