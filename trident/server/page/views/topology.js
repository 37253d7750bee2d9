// The topology, drawn, with live rates; its batch groups; what is known of one step.

import { h, s, show } from "../dom.js";
import { lastCommit, lastMinute, live, now, rateOf } from "../live.js";
import { ago, amount, clock, duration, number, plural, promised, rate } from "../words.js";

/** To what part of its width a picture shrinks before it scrolls: if it were smaller, nobody could read it. */
const LEAST = 0.8;

const address = (id) => (id ? `#/topology?node=${id}` : "#/topology");

export function draw(root, at, plan) {
  if (!root.querySelector(".picture")) {
    root.replaceChildren(
      h("h2", { class: "aside" }, "Topology"),
      h("section", { class: "cards", "aria-label": "Batch groups" }),
      h("div", { class: "split" },
        h("section", { class: "picture panel", tabindex: 0, "aria-label": "Picture of the topology" }, picture(plan)),
        h("section", { class: "detail panel", "aria-label": "The step" })),
    );
    centre(root.querySelector(".picture"), plan);
  }
  changed(root, at, plan);
}

export function changed(root, at, plan) {
  const chosen = plan.picture.boxes.find((box) => box.id === at.query.get("node"));
  show(root.querySelector(".cards"), cards());
  for (const link of root.querySelectorAll(".box")) {
    if (link.dataset.id === chosen?.id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const label of root.querySelectorAll("text[data-rate]")) {
    const value = rateAt(label.dataset.rate, plan);
    const told = value === null ? "" : `${rate(value)}/s`;
    if (label.textContent !== told) label.textContent = told;
    label.parentNode.classList.toggle("flowing", value > 0);
  }
  root.querySelector(".split").classList.toggle("open", Boolean(chosen));
  show(root.querySelector(".detail"), chosen ? detail(chosen, plan) : null);
}

// --- groups ---------------------------------------------------------------------------------------------------------

function cards() {
  const groups = live.status?.groups ?? [];
  if (live.status && !groups.length) return h("p", { class: "soft" }, "No batch group: the topology only answers DRPC functions.");
  return groups.map((group) => {
    const last = lastCommit(group.name);
    const perSecond = rateOf(`group ${group.name}`, group.name);
    const flight = group.isActive ? Object.keys(group.inFlight).length : 0;
    const failed = live.events.filter((event) => event.group === group.name && event.event === "failed").length;
    const driver = group.isActive !== null;
    return h("article", { class: "card", "data-key": group.name },
      h("h3", null, h("span", { class: "soft" }, "batch group "), group.name),
      h("dl", { class: "figures" },
        figure("committed txid", number(group.committed)),
        driver && figure("rows/s", rate(perSecond)),
        driver && figure("last batch", duration(last?.durationMs.total)),
        driver && figure("under way", number(flight)),
        group.sources.map((source) => figure(`lag of ${source.stream}`, amount(source.lag, source.unit), `${amount(source.read, source.unit)} of ${amount(source.known, source.unit)} read`)),
        group.positions.map((at) => figure(`position of ${at.stream}`, position(at), `after batch ${at.frozen}\n${parts(at).join("\n")}`)),
        group.windows.map((window) => figure(`watermark of ${window.state}`,
          window.watermark ? behind(window.watermark) : "none yet",
          window.watermark ? `${window.watermark}; late rows: ${number(window.numRowsDroppedByWatermark)}` : "no tuple had a time yet",
          window.numRowsDroppedByWatermark ? `${number(window.numRowsDroppedByWatermark)} late` : null)),
      ),
      driver && spark(group.name),
      failed > 0 && h("p", { class: "bad small" }, h("a", { href: `#/batches?group=${encodeURIComponent(group.name)}&only=failed` }, plural(failed, "failed attempt"), " lately")),
      group.committedAt && h("p", { class: "soft small", title: group.committedAt }, `last commit at ${clock(group.committedAt)}, ${ago(now() - Date.parse(group.committedAt))}`));
  });
}

/** Return the parts of a source, each with its position as text. */
function parts(at) {
  return Object.entries(at.parts).map(([part, position]) => `${part}: ${typeof position === "string" ? position : JSON.stringify(position)}`);
}

/** Return a position in few words: of a source with several parts only their number, since the title has them. */
function position(at) {
  const texts = parts(at), count = texts.length + at.more;
  return count > 1 ? plural(count, "part") : texts[0] ?? "at the beginning";
}

function figure(name, value, title, more) {
  return h("div", { title }, h("dt", null, name), h("dd", null, value, more && h("span", { class: "soft small" }, ` ${more}`)));
}

function behind(iso) {
  const late = now() - Date.parse(iso);
  return late >= 0 && late < 86_400_000 ? `${duration(late)} ago` : new Date(iso).toISOString().slice(0, 19).replace("T", " ");
}

/** Return the rows of the last minute as a small line. */
function spark(group) {
  const values = lastMinute(`group ${group}`);
  const most = Math.max(...values);
  const points = values.map((value, at) => `${(at * 240) / 59},${most ? 30 - (28 * value) / most : 30}`);
  return s("svg", { class: "spark", viewBox: "0 0 240 32", preserveAspectRatio: "none", role: "img", "aria-label": `rows of the last minute, at most ${rate(most)} in a second` },
    s("polyline", { class: "area", points: `0,32 ${points.join(" ")} 240,32` }),
    s("polyline", { class: "line", points: points.join(" ") }));
}

/** Scroll a picture that is wider than its panel to its first source. */
function centre(panel, plan) {
  const first = plan.picture.boxes.find((box) => box.kind === "source") ?? plan.picture.boxes[0];
  const scale = panel.firstElementChild.getBoundingClientRect().width / plan.picture.width;
  if (first) panel.scrollLeft = (first.x + first.width / 2) * scale - panel.clientWidth / 2;
}

// --- picture --------------------------------------------------------------------------------------------------------

function picture(plan) {
  const drawn = plan.picture;
  const marker = (id) => s("marker", { id, viewBox: "0 0 8 8", refX: 7.2, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
    s("path", { d: "M0,0.6 L7.4,4 L0,7.4 z", class: id }));
  const svg = s("svg", { viewBox: `0 0 ${drawn.width} ${drawn.height}`, class: "drawn" },
    s("title", null, "The steps of the topology and the states that they write"),
    s("defs", null, marker("head"), marker("read-head")),
    drawn.clusters.map((cluster) => s("g", { class: "cluster" },
      s("rect", { x: cluster.x, y: cluster.y, width: cluster.width, height: cluster.height, rx: 8 }),
      s("text", { x: cluster.x + 12, y: cluster.y + 17 }, cluster.title))),
    drawn.arrows.map((arrow, at) => drawArrow(arrow, at)),
    drawn.boxes.map(drawBox));
  svg.style.maxWidth = `${drawn.width}px`;
  svg.style.minWidth = `${drawn.width * LEAST}px`;
  return svg;
}

function drawBox(box) {
  const middle = box.x + box.width / 2;
  const state = box.kind === "state";
  const top = box.y + 20.5 + (state ? 8 : 0);
  const shape = state ? cylinder(box) : s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: box.kind === "source" ? 20 : 6 });
  return s("a", { href: address(box.id), class: `box ${box.kind}`, "data-id": box.id, "data-stop": true, "aria-label": `${box.kind} ${box.title}` },
    s("title", null, [box.title, ...box.lines, box.hint].join("\n")), shape,
    s("text", { x: middle, y: top, class: "title" }, cut(box.title)),
    box.lines.map((line, at) => s("text", { x: middle, y: top + 16 * (at + 1), class: "line" }, cut(line))));
}

function cylinder({ x, y, width, height }) {
  const half = width / 2;
  return [
    s("path", { d: `M${x},${y + 7} v${height - 14} a${half},7 0 0 0 ${width},0 v${14 - height}` }),
    s("ellipse", { cx: x + half, cy: y + 7, rx: half, ry: 7 }),
  ];
}

function drawArrow(arrow, at) {
  const path = s("path", { d: arrow.path, "marker-end": `url(#${arrow.dashed ? "read-head" : "head"})` });
  const middle = path.getPointAtLength ? path.getPointAtLength(path.getTotalLength() * 0.45) : { x: 0, y: 0 };
  const last = arrow.points.at(-1);
  const left = last[0] < arrow.points[0][0];
  return s("g", { class: arrow.dashed ? "arrow read" : "arrow" }, path,
    arrow.label && s("text", { x: last[0] + (left ? -6 : 6), y: last[1] - 10, class: "label", "text-anchor": left ? "end" : "start" }, arrow.label),
    !arrow.dashed && !arrow.label && s("text", { x: middle.x + 6, y: middle.y + 4, class: "rate", "data-rate": at }));
}

const cut = (line) => (line.length <= 46 ? line : `${line.slice(0, 45)}…`);

/** Return the rows per second on an arrow: what leaves its step, or failed there; else, behind a source, its group's. */
function rateAt(at, plan) {
  const arrow = plan.picture.arrows[at];
  const [source, target] = [arrow.source, arrow.target].map((id) => plan.picture.boxes.find((box) => box.id === id));
  const group = groupOf(source, plan);
  if (target.kind === "state") return rateOf(`state ${target.title}`, group);
  return rateOf(`${target.title === "deadLetters" ? "failed" : "out"} ${source.step}`, group)
    ?? (source.kind === "source" && onlySource(source, plan) ? rateOf(`group ${group}`, group) : null);
}

const groupOf = (box, plan) => plan.picture.clusters.find((cluster) => cluster.id === box.cluster)?.title.replace("batch group ", "");

const onlySource = (box, plan) => plan.picture.boxes.filter((other) => other.kind === "source" && other.cluster === box.cluster && !returning(other, plan)).length === 1
  && !returning(box, plan);

/** Return whether a source only gives back dead letters. */
const returning = (box, plan) => plan.replayable.some((stream) => box.title === `${stream}.again`);

// --- one step -------------------------------------------------------------------------------------------------------

function detail(box, plan) {
  const state = box.kind === "state" && plan.states.find((each) => each.name === box.title);
  const group = groupOf(box, plan);
  const step = box.kind === "state" ? null : box.step;
  const measured = ["in", "out", "failed"].map((name) => [name, step && rateOf(`${name} ${step}`, group)]).filter(([, value]) => value !== null);
  const counted = lastCommit(group)?.steps?.find((each) => each.name === step);
  const last = lastCommit(group);
  return [
    h("div", { class: "row head" }, h("h3", null, box.title), h("span", { class: "grow" }),
      h("a", { href: address(), "data-close": true, class: "plain" }, "Close")),
    h("p", { class: "soft" }, { source: "source", step: "step", effect: "output or side effect", aggregate: "aggregate", state: "state", query: "query", meeting: "streams meet" }[box.kind]),
    h("ul", { class: "lines" }, box.lines.map((line) => h("li", { class: "code" }, line))),
    !state && h("p", { class: "soft small code" }, box.hint),
    measured.length > 0 && h("dl", { class: "figures" }, measured.map(([name, value]) => figure(`${name} a second`, rate(value)))),
    counted && h("p", { class: "small" }, `in the last batch: ${number(counted.in)} in, ${number(counted.out)} out`
      + (counted.failed ? `, ${number(counted.failed)} failed` : "") + (typeof counted.seconds === "number" ? `, ${duration(counted.seconds * 1000)}` : "")),
    box.kind === "source" && last && h("p", { class: "small" }, `last batch: ${plural(last.numInputRows, "row")}`),
    state && last?.states?.[state.name] && h("p", { class: "small" }, `last batch: ${plural(last.states[state.name].keys, "key")} touched`),
    state && h("div", null, guarantee(state), h("p", null, h("a", { href: `#/states/${encodeURIComponent(state.name)}` }, "Browse this state"))),
  ];
}

/** Return the promise for a state, in words. */
export function guarantee(state) {
  const durability = {
    process: "It ends with the process.", checkpoint: "It survives with the checkpoint.", server: "It survives in its store.",
  }[state.survives];
  return h("div", { class: "guarantee" },
    h("p", null, h("span", { class: state.exactlyOnce ? "chip good" : "chip warn" }, promised(state.promise)), " ",
      h("span", { class: "soft small" }, `${state.kind}, ${state.store}`)),
    !state.exactlyOnce && h("p", { class: "small" }, [state.promise, state.condition].filter(Boolean).join(", ")),
    h("p", { class: "soft small" }, `fed by ${state.origin}. ${durability}`));
}
