// Who it was, and what was said of it.
import { html } from "../lib/dom.js";
import { usePeople } from "../lib/people.js";
import { told } from "../lib/told.js";

/**
 * A user or token by the name that people know; any other resource as it is.
 * @param {{ name: string | undefined }} props
 */
export function Person({ name = "" }) {
  const shown = usePeople(name);
  return name ? html`<span class="person" title=${name}>${shown}</span>` : null;
}

/**
 * A sentence of the scheduler, with whom it names as people know them; its own words are told when
 * it is pointed at.
 * @param {{ text: string | undefined }} props
 */
export function Told({ text = "" }) {
  return html`<span title=${text}>${usePeople(told(text))}</span>`;
}
