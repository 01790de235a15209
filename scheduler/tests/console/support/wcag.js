// What WCAG asks of a page, as far as a script can see it. Each function runs within the page and
// gives what falls short.

/** Texts on the page that are hard to read, by WCAG's measure. */
export function faint() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  /** @param {string} colour */
  const rgba = (colour) => {
    if (!canvas) return [0, 0, 0, 0];
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  /** @param {number[]} c */
  const light = ([r, g, b]) =>
    [r, g, b].map((v) => v / 255).map((v) =>
      (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  /** @param {Element | null} at */
  const ground = (at) => {
    for (let one = at; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] > 200) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent?.trim());
    const box = one.getBoundingClientRect();
    const off = one.closest(":disabled, .sr, option, [aria-hidden=true]") || one.matches("option");
    if (!own || off || box.width < 2 || box.height < 2) continue;
    const [a, b] = [light(rgba(getComputedStyle(one).color)), light(ground(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(`${one.tagName}.${one.className}: ${ratio.toFixed(2)}`);
  }
  return [...found];
}

/** Controls that a listener would hear no name of. */
export function nameless() {
  const controls = [...document.querySelectorAll(
    "main button, main input, main select, main textarea, main a, nav a, aside button")];
  return controls.filter((one) => {
    const labels = /** @type {HTMLInputElement} */ (one).labels;
    const name = one.getAttribute("aria-label") || one.getAttribute("title") ||
      one.textContent?.trim() ||
      (labels && [...labels].some((label) => label.textContent?.trim()));
    const hidden = one.closest("[aria-hidden=true], details:not([open])") ||
      one.getAttribute("tabindex") === "-1";
    return !name && !hidden;
  }).map((one) => one.outerHTML.slice(0, 120));
}

/** What can be clicked, and not reached by keyboard. */
export function unreachable() {
  const own = "a[href], button, input, select, textarea, label, summary, [tabindex]";
  return [...document.querySelectorAll("body *")].filter((one) =>
    getComputedStyle(one).cursor === "pointer" && !one.closest(own))
    .map((one) => one.outerHTML.slice(0, 120));
}

/** Faults of the page as an outline: its language, its one heading, names that stand twice. */
export function outline() {
  const all = (/** @type {string} */ what) => [...document.querySelectorAll(what)];
  const found = [];
  if (!document.documentElement.lang) found.push("no language");
  for (const one of ["h1", "main"]) {
    if (all(one).length !== 1) found.push(`${all(one).length} ${one}`);
  }
  const levels = all("h1, h2, h3, h4").map((one) => Number(one.tagName[1]));
  levels.forEach((level, i) => {
    if (level > (levels[i - 1] ?? 1) + 1) found.push(`h${level} after h${levels[i - 1]}`);
  });
  const ids = all("[id]").map((one) => one.id);
  found.push(...ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => `two of id ${id}`));
  found.push(...all("[aria-describedby], [aria-labelledby]").flatMap((one) =>
    (one.getAttribute("aria-describedby") ?? one.getAttribute("aria-labelledby") ?? "").split(" "))
    .filter((id) => id && !document.getElementById(id)).map((id) => `nothing has the id ${id}`));
  found.push(...all("[tabindex]").filter((one) => Number(one.getAttribute("tabindex")) > 0)
    .map((one) => `order of its own: ${one.outerHTML.slice(0, 80)}`));
  return found;
}

/** Fields whose edge is hard to see (3 to 1), and buttons too small to hit (24 px). */
export function edges() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  /** @param {string} colour */
  const light = (colour) => {
    if (!canvas) return 0;
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  };
  const found = [];
  for (const one of document.querySelectorAll("main :is(input, select, textarea), main button")) {
    const box = one.getBoundingClientRect();
    const style = getComputedStyle(one);
    if (box.width < 2 || one.matches(":disabled, [type=checkbox]") || one.closest(".sr")) continue;
    const words = `${one.outerHTML.slice(0, 90)}`;
    if (!one.matches("button")) {
      const [a, b] = [light(style.borderTopColor), light(style.backgroundColor)];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 3) found.push(`${ratio.toFixed(2)}: ${words}`);
    } else if (!one.matches(".link") && Math.min(box.width, box.height) < 24) {
      found.push(`${Math.round(box.width)} by ${Math.round(box.height)}: ${words}`);
    }
  }
  return found;
}

/** Where the focus is: whether it can be seen, and where in the document it stands. */
export function focus() {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const box = at.getBoundingClientRect();
  const style = getComputedStyle(at);
  const marked = style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 1;
  return {
    words: at.outerHTML.slice(0, 120),
    place: [...document.querySelectorAll("*")].indexOf(at),
    seen: marked && box.width > 1 && box.height > 1 && box.bottom > 0 && box.top < innerHeight &&
      box.right > 0 && box.left < innerWidth,
  };
}
