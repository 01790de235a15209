// Something that is on or off.
import { html, useState } from "../lib/dom.js";

/** @param {{ on: boolean, flip: () => Promise<void>, label: string, text: string }} props */
export function Switch({ on, flip, label, text }) {
  const [busy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    await flip();
    setBusy(false);
  };
  return html`<button type="button" class="switch" role="switch" aria-checked=${on}
    aria-busy=${busy}
    aria-label=${label} onClick=${() => busy || act()}>
    <span class="switch-way" aria-hidden="true"></span><span>${text}</span></button>`;
}
