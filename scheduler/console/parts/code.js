// Text as a machine wrote it.
import { html, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { shown } from "../lib/payload.js";
import { Button } from "./basics.js";

const COPIED_MS = 1500;

/** Puts a text where it can be pasted. @param {{ text: string, label?: string }} props */
export function Copy({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), COPIED_MS);
    } catch {
      // Without leave for the clipboard the text can still be chosen by hand.
    }
  };
  return html`<${Button} kind="quiet" icon=${done ? "ok" : "copy"} onClick=${copy}
    label=${label ?? t("do.copy")} />`;
}

/** @param {{ text: string, label: string }} props */
export const Code = ({ text, label }) =>
  html`<div class="code"><pre tabindex="0" aria-label=${label}>${text}</pre><${Copy} text=${text} />
    </div>`;

/** Params, output. @param {{ of: pb.Payload | undefined, label: string, none: string }} props */
export function Payload({ of, label, none }) {
  const { text, kind } = shown(of);
  if (kind === "none") return html`<p class="none">${none}</p>`;
  if (kind === "bytes") return html`<p class="none">
    ${t("payload.bytes", { text, type: of?.contentType ?? "" })}</p>`;
  return html`<${Code} text=${text} label=${label} />`;
}
