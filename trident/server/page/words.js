// Numbers, times and values in words.

import { json } from "./server.js";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export const rate = (value) => (value === null || value === undefined ? "–"
  : value >= 1000 ? short.format(value).replace("K", "k") : value >= 10 || value === 0 ? whole.format(value) : value.toFixed(1));

export const duration = (ms) => (ms === null || ms === undefined ? "–"
  : ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms`
  : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : ms < 3_600_000 ? `${Math.floor(ms / 60_000)} min ${Math.round(ms / 1000) % 60} s`
  : ms < 172_800_000 ? `${(ms / 3_600_000).toFixed(1)} h` : `${Math.round(ms / 86_400_000)} days`);

export function amount(value, unit) {
  if (unit !== "bytes") return `${number(value)} ${unit}`;
  const scale = value >= 1e9 ? 3 : value >= 1e6 ? 2 : value >= 1e3 ? 1 : 0;
  return scale ? `${(value / 1000 ** scale).toFixed(1)} ${"kMG"[scale - 1]}B` : `${value} bytes`;
}

export const clock = (iso) => new Date(iso).toLocaleTimeString("en-GB", { hour12: false });

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** Return a promise in a word or two: what stands before its conditions. */
export const promised = (promise) => (promise.startsWith("nothing") ? "no promise" : promise.split(/[:,]/)[0]);

/** Return a value of a state or a row as text: text as it is, everything else as JSON. */
export const text = (value) => (value === null || value === undefined ? "null" : typeof value === "string" ? value
  : typeof value === "bigint" || Number.isInteger(value) ? whole.format(value) : json(value));

/** Return how long ago something was, from milliseconds. */
export const ago = (ms) => (ms < 1000 ? "just now" : `${duration(ms)} ago`);
