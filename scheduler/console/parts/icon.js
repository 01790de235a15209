// Drawings, 16 by 16, in the colour of the text around them.
import { html } from "../lib/dom.js";

/** @type {Record<string, string>} */
const PATHS = {
  home: "M2.5 7.5 8 2.800l5.5 4.700v6h-4v-4h-3v4h-4z",
  jobs: "M3 3.500h10v9H3zM3 6.500h10M6 3.500v9",
  runs: "M2.5 4h7M2.5 8h11M2.5 12h5M12 2.500v3M10.5 4h3",
  forecast: "M2.5 4h11v9.500h-11zM2.5 7h11M5.5 2.500V5M10.5 2.500V5M8 9v2.500h2",
  calendars: "M2.5 4h11v9.500h-11zM2.5 7h11M5.5 2.500V5M10.5 2.500V5M6 9.300l4 2.400M10 9.300l-4 2.400",
  executors: "M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.01M5.5 11h.01M9 5h2M9 11h2",
  cluster: "M8 2.500a1.7 1.7 0 1 1 0 3.400a1.7 1.7 0 1 1 0-3.400M3.7 10a1.7 1.7 0 1 1 0 3.400a1.7 1.7 0 1 1 0-3.400M12.3 10a1.7 1.7 0 1 1 0 3.400a1.7 1.7 0 1 1 0-3.400M7 5.7 4.6 10.200M9 5.700l2.4 4.500M5.5 11.700h5",
  alarms: "M8 2.300c-2.4 0-3.7 1.8-3.7 4v2.500L3 11.300h10l-1.3-2.500V6.300c0-2.2-1.3-4-3.7-4zM6.7 13.500h2.6",
  access: "M6 2.700a2.6 2.6 0 1 1 0 5.200a2.6 2.6 0 1 1 0-5.200M1.7 13.300c.4-2.6 2-3.9 4.3-3.900s3.9 1.3 4.3 3.900M11 5h3.500M12.7 5v2",
  search: "M7 2.700a4.3 4.3 0 1 1 0 8.600a4.3 4.3 0 1 1 0-8.600M10.2 10.200l3.5 3.5",
  plus: "M8 3v10M3 8h10",
  sun: "M8 5.300a2.7 2.7 0 1 1 0 5.400a2.7 2.7 0 1 1 0-5.400M8 1.500v1.700M8 12.800v1.700M1.5 8h1.700M12.8 8h1.700M3.4 3.400l1.2 1.200M11.4 11.400l1.2 1.200M12.6 3.400l-1.2 1.200M4.6 11.400l-1.2 1.2",
  moon: "M13.3 9.600A5.7 5.7 0 0 1 6.4 2.700a5.6 5.6 0 1 0 6.9 6.900z",
  clock: "M8 2.300a5.7 5.7 0 1 1 0 11.400a5.7 5.7 0 1 1 0-11.400M8 4.700V8l2.3 1.7",
  user: "M8 2.700a2.6 2.6 0 1 1 0 5.200a2.6 2.6 0 1 1 0-5.200M3 13.300c.5-2.6 2.3-3.9 5-3.900s4.5 1.3 5 3.9",
  pause: "M5.5 3.500v9M10.5 3.500v9",
  play: "M5 3.300v9.400L12.7 8z",
  trash: "M3 4.500h10M6.3 4.300V2.700h3.400v1.600M4.3 4.500l.6 8.800h6.200l.6-8.8",
  refresh: "M13.2 6.500A5.4 5.4 0 0 0 3.4 5.300M2.8 9.500a5.4 5.4 0 0 0 9.8 1.200M3.2 2.500v3h3M12.8 13.500v-3h-3",
  copy: "M5.5 5.500h8v8h-8zM10.5 5.500v-3h-8v8h3",
  edit: "M3 13l.6-2.7 7-7 2.1 2.1-7 7z",
  down: "M8 2.500v8M4.5 7.3 8 10.700l3.5-3.400M3 13.500h10",
  close: "M4 4l8 8M12 4l-8 8",
  next: "M6 3.5 10.5 8 6 12.5",
  back: "M10 3.5 5.5 8l4.5 4.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  warn: "M8 2.5 14 13H2zM8 6.500v3M8 11.300h.01",
  link: "M6.5 9.500l3-3M7 4.700l1.3-1.300a2.9 2.9 0 0 1 4.2 4.200L11.2 9M9 11.300l-1.3 1.300a2.9 2.9 0 0 1-4.2-4.200L4.8 7",
  keyboard: "M1.7 4h12.600v8H1.700zM4 6.700h.01M6.7 6.700h.01M9.3 6.700h.01M12 6.700h.01M5 9.500h6",
  out: "M9.5 5V2.700h-7v10.600h7V11M6.5 8h7.500M11.5 5.5 14 8l-2.5 2.5",
  // States of runs.
  ok: "M3.3 8.500l3 3L12.7 5",
  bad: "M4.3 4.300l7.4 7.400M11.7 4.300l-7.4 7.4",
  late: "M8 2.700a5.3 5.3 0 1 1 0 10.600a5.3 5.3 0 1 1 0-10.600M8 5v3.200l2 1.5",
  lost: "M5.3 6a2.7 2.7 0 1 1 4 2.400c-.9.5-1.3 1-1.3 2M8 12.800h.01",
  off: "M4.5 4.500h7v7h-7z",
  skip: "M3.5 4.5 8 8l-4.5 3.500M9 4.500l4 3.5-4 3.5",
  wait: "M8 3.700a4.3 4.3 0 1 1 0 8.600a4.3 4.3 0 1 1 0-8.6",
  run: "M8 2.700A5.3 5.3 0 1 1 2.7 8",
};

/** @param {{ name: string, size?: number, class?: string }} props */
export function Icon({ name, size = 16, class: extra = "" }) {
  return html`<svg class=${`icon ${extra}`} width=${size} height=${size} viewBox="0 0 16 16"
    fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"
    stroke-linejoin="round" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

/** The sign of the house. @param {{ size?: number }} props */
export function Mark({ size = 22 }) {
  return html`<svg class="mark" width=${size} height=${size} viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="7" class="mark-ground" />
    <path class="mark-claw"
      d="M8.5 7.500c1.2 6 .6 11.5-1.5 16M16 6.500c1.3 6.5.7 13-1.5 19M23.5 7.500c1.2 6 .6 11.5-1.5 16" />
  </svg>`;
}
