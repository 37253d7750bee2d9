// What the server has told of the run: its status, its newest batches, and rates worked out from them.

import { follow } from "./server.js";

const MOST = 500;
const SECONDS = 600;

export const live = { status: null, events: [], connected: null, missed: 0 };

/** The sums of each second, by what they count ("group words", "step lines/1:each", ...). */
const sums = new Map();
const commits = new Map();
let skew = 0;
let wake = () => {};
let waiting = false;

/** Call `changed` when there is something new, at most three times a second. */
export function start(changed) {
  wake = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; changed(); }, 300);
  };
  follow(heard, (on) => {
    live.connected = on;
    wake();
  });
  setInterval(wake, 2000); // rates fall to zero although nothing comes
}

function heard(kind, content) {
  if (kind === "hello") skew = Date.now() - Date.parse(content.time);
  if (kind === "missed") live.missed += content.events;
  if (kind === "status") {
    if (live.status && live.status.runId !== content.runId) forget(); // another run: its batches are others
    live.status = content;
  }
  if (kind === "progress") keep(content);
  wake();
}

function forget() {
  live.events = [];
  live.missed = 0;
  sums.clear();
  commits.clear();
}

function keep(event) {
  live.events.push(event);
  if (live.events.length > MOST) live.events.splice(0, live.events.length - MOST);
  if (event.event !== "committed") return;
  const second = Math.floor(Date.parse(event.timestamp) / 1000);
  const times = commits.get(event.group) ?? [];
  commits.set(event.group, [...times, Date.parse(event.timestamp)].slice(-6));
  const count = (name, value) => {
    if (typeof value !== "number") return;
    const all = sums.get(name) ?? sums.set(name, new Map()).get(name);
    all.set(second, (all.get(second) ?? 0) + value);
    if (all.size > SECONDS) all.delete(all.keys().next().value);
  };
  count(`group ${event.group}`, event.numInputRows);
  for (const [name, state] of Object.entries(event.states ?? {})) count(`state ${name}`, state.keys);
  for (const step of event.steps ?? []) {
    count(`in ${step.name}`, step.in);
    count(`out ${step.name}`, step.out);
    count(`failed ${step.name}`, step.failed);
  }
}

export const now = () => Date.now() - skew;

/** Return how much came in a second, over the last seconds or the last few batches; null if it is not counted. */
export function rateOf(name, group) {
  const all = sums.get(name);
  if (!all) return null;
  const times = commits.get(group) ?? [];
  const gap = times.length > 1 ? (times.at(-1) - times[0]) / (times.length - 1) / 1000 : 0;
  const window = Math.min(SECONDS, Math.max(10, Math.ceil(3 * gap)));
  const last = Math.floor(now() / 1000);
  let sum = 0;
  let first = last;
  for (const [second, value] of all) {
    if (second > last - window) {
      sum += value;
      first = Math.min(first, second);
    }
  }
  return sum / (last - first + 1);
}

/** Return the sums of the last 60 seconds, the oldest first. */
export function lastMinute(name) {
  const all = sums.get(name) ?? new Map();
  const last = Math.floor(now() / 1000);
  return Array.from({ length: 60 }, (_, at) => all.get(last - 59 + at) ?? 0);
}

/** Return the newest committed batch of a group. */
export const lastCommit = (group) => live.events.findLast((event) => event.group === group && event.event === "committed");
