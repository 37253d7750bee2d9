// The batches as a timeline: attempts, phases, waiting, commit.

import { h, s, show } from "../dom.js";
import { live } from "../live.js";
import { clock, duration, number, plural } from "../words.js";

const PHASES = ["plan", "run", "freeze", "waiting", "commit"];
const ROWS = 60;
const COLUMNS = 120;

const keyOf = (event) => `${event.group}.${event.txid}.${event.attempt}.${event.event}`;

function address(at, changes) {
  const query = new URLSearchParams(at.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  return `#/batches${query.size ? `?${query}` : ""}`;
}

export function draw(root, at, plan) {
  if (!root.querySelector(".timeline")) root.replaceChildren(h("h2", { class: "aside" }, "Batches"), h("div", { class: "timeline" }));
  changed(root, at, plan);
}

export function changed(root, at) {
  const group = at.query.get("group");
  const only = at.query.get("only");
  const batches = live.events.filter((event) => (!group || event.group === group) && (only !== "failed" || event.event !== "committed"));
  const chosen = live.events.findLast((event) => keyOf(event) === at.query.get("batch"));
  show(root.querySelector(".timeline"),
    h("div", { class: "row filters" }, filters(at, group, only), legend()),
    under(group),
    !live.events.length && empty(),
    live.events.length > 0 && h("div", { class: chosen ? "split open" : "split" },
      h("section", { class: "panel", "aria-label": "Batches, the newest first" }, columns(batches), table(batches, at)),
      h("section", { class: "detail panel", "aria-label": "The batch" }, chosen ? detail(chosen, at) : null)));
}

function empty() {
  return h("p", { class: "panel soft" }, live.status && !live.status.engine
    ? "This server reads the states without the driver, so it sees what is committed and not how. The page of the driver (running.serve()) shows its batches."
    : "No batch yet.");
}

function filters(at, group, only) {
  const groups = (live.status?.groups ?? []).map((each) => each.name);
  const link = (text, changes, on) => h("a", { href: address(at, { batch: null, ...changes }), class: "pill", "aria-current": on ? "true" : null }, text);
  return h("div", { class: "row pills" },
    groups.length > 1 && [link("all groups", { group: null }, !group), groups.map((name) => link(name, { group: name }, group === name))],
    link("all", { only: null }, !only), link("failed", { only: "failed" }, only === "failed"));
}

function legend() {
  return h("ul", { class: "legend", "aria-label": "Phases" }, [...PHASES, "failed"].map((phase) => h("li", null, h("i", { class: phase }), phase)));
}

/** Return the attempts under way. */
function under(group) {
  const going = (live.status?.groups ?? []).filter((each) => each.isActive && (!group || each.name === group))
    .flatMap((each) => Object.entries(each.inFlight).map(([attempt, state]) => [each, attempt, state]));
  return h("p", { class: "under small", "data-key": "under" }, going.length === 0 ? h("span", { class: "soft" }, "nothing under way")
    : [h("span", { class: "soft" }, "under way: "), going.map(([each, attempt, state]) => h("span", { class: "pill busy" }, `${each.name} ${attempt} ${state}`))]);
}

/** Return the milliseconds of each phase; what no phase took is waiting for earlier batches, and for turns. */
function phases(event) {
  const told = event.durationMs ?? {};
  const known = (told.plan ?? 0) + (told.run ?? 0) + (told.freeze ?? 0) + (told.commit ?? 0);
  return { ...told, waiting: Math.max(0, (told.total ?? 0) - known) };
}

/** Return the durations of the newest batches as columns, the newest at the right. */
function columns(batches) {
  const newest = batches.slice(-COLUMNS);
  const most = Math.max(1, ...newest.map((event) => event.durationMs?.total ?? 0));
  const width = 960 / COLUMNS;
  return s("svg", { class: "columns", viewBox: "0 0 960 96", preserveAspectRatio: "none", role: "img", "aria-label": `durations of the last ${newest.length} attempts, at most ${duration(most)}` },
    newest.map((event, at) => {
      const x = 960 - (newest.length - at) * width;
      if (event.event === "failed") return s("rect", { class: "failed", x, y: 0, width: width - 1.5, height: 96 });
      let y = 96;
      const took = phases(event);
      return PHASES.map((phase) => {
        const height = (92 * (took[phase] ?? 0)) / most;
        y -= height;
        return s("rect", { class: phase, x, y, width: width - 1.5, height });
      });
    }));
}

function table(batches, at) {
  const newest = batches.slice(-ROWS).reverse();
  const most = Math.max(1, ...newest.map((event) => event.durationMs?.total ?? 0));
  const many = new Set(newest.map((event) => event.group)).size > 1;
  return h("table", { class: "batches" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "batch"), h("th", { scope: "col", class: "wide" }, "at"),
      h("th", { scope: "col", class: "num wide" }, "rows"), h("th", { scope: "col", class: "stretch" }, "phases"), h("th", { scope: "col", class: "num" }, "total"))),
    h("tbody", null, newest.map((event) => h("tr", { "data-key": keyOf(event), class: event.event },
      h("td", null, h("a", { href: address(at, { batch: keyOf(event) }), "data-stop": true, "aria-current": at.query.get("batch") === keyOf(event) ? "true" : null },
        many && `${event.group} `, `${event.txid}`, event.attempt > 0 && h("span", { class: "soft" }, ` attempt ${event.attempt}`))),
      h("td", { class: "wide soft" }, clock(event.timestamp)),
      h("td", { class: "num wide" }, event.event === "committed" ? number(event.numInputRows) : ""),
      h("td", { class: "stretch" }, event.event === "committed" ? bar(event, most) : h("span", { class: event.event === "failed" ? "bad small fault" : "small fault" }, `${event.event} in ${event.phase}${event.error ? `: ${event.error}` : ""}`)),
      h("td", { class: "num" }, event.event === "committed" ? duration(event.durationMs.total) : "")))));
}

function bar(event, most) {
  const took = phases(event);
  let x = 0;
  const words = PHASES.filter((phase) => took[phase] !== undefined).map((phase) => `${phase} ${duration(took[phase])}`).join(", ");
  return s("svg", { class: "bar", viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": words },
    PHASES.map((phase) => {
      const width = (1000 * (took[phase] ?? 0)) / most;
      x += width;
      return s("rect", { class: phase, x: x - width, y: 0, width, height: 10 });
    }));
}

/** Return the counters or the warnings of all steps of a batch, each under the names of its step and itself. */
function notesOf(event, kind) {
  return Object.fromEntries((event.steps ?? []).flatMap((step) => Object.entries(step[kind] ?? {}).map(([name, value]) => [`${step.name}, ${name}`, value])));
}

function detail(event, at) {
  const took = phases(event);
  const pairs = (title, content, write) => content && Object.keys(content).length > 0
    && [h("h4", null, title), h("dl", { class: "pairs" }, Object.entries(content).map(([name, value]) => [h("dt", { class: "code" }, name), h("dd", null, write(value))]))];
  const others = live.events.filter((each) => each.group === event.group && each.txid === event.txid);
  return [
    h("div", { class: "row head" }, h("h3", null, `${event.group} ${event.txid}`), h("span", { class: "grow" }),
      h("a", { href: address(at, { batch: null }), "data-close": true, class: "plain" }, "Close")),
    h("p", null, h("span", { class: event.event === "committed" ? "chip good" : "chip failed" }, event.event), " ",
      h("span", { class: "soft" }, `attempt ${event.attempt}, ${event.timestamp.slice(0, 10)} ${clock(event.timestamp)}`)),
    event.error && h("pre", { tabindex: 0, "aria-label": "The error" }, `in ${event.phase}: ${event.error}`),
    event.event === "committed" && h("p", null, event.numInputRows === null ? "rows not counted" : `${plural(event.numInputRows, "row")} came in`),
    event.durationMs && pairs("phases", Object.fromEntries(PHASES.filter((phase) => took[phase] !== undefined).map((phase) => [phase, took[phase]])), duration),
    pairs("states", event.states && Object.fromEntries(Object.entries(event.states).filter(([name]) => !name.endsWith(".watermark"))), (state) => [`${plural(state.keys, "key")}, ${number(state.written)} written`, state.watermark && `, watermark ${state.watermark}`,
      state.numRowsDroppedByWatermark ? `, ${number(state.numRowsDroppedByWatermark)} late` : null]),
    pairs("outputs", event.outputs, (output) => plural(output.rows, "row")),
    pairs("latency", event.latencyMs, (of) => `p50 ${duration(of.p50)}, p99 ${duration(of.p99)}, max ${duration(of.max)}, of ${plural(of.count, "message")}`),
    pairs("sources", event.sources, (source) => `${number(source.read)} of ${number(source.known)} ${source.unit}, lag ${number(source.lag)}`),
    event.steps && pairs("steps", Object.fromEntries(event.steps.map((step) => [step.name, step])), (step) => `${number(step.in)} in, ${number(step.out)} out`),
    pairs("counts", notesOf(event, "counts"), number),
    pairs("warnings", notesOf(event, "warnings"), (warned) => `${number(warned.number)}${warned.example === null ? "" : `, such as ${warned.example}`}`),
    pairs("dead letters", event.deadLetters, (count) => plural(count, "tuple")),
    pairs("skipped", event.skipped, (count) => plural(count, "tuple")),
    others.length > 1 && [h("h4", null, "attempts"), h("ul", { class: "lines" }, others.map((each) => h("li", null,
      h("a", { href: address(at, { batch: keyOf(each) }) }, `attempt ${each.attempt}: ${each.event}${each.phase ? ` in ${each.phase}` : ""}`))))],
  ];
}
