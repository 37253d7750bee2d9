// A chart of a query's rows: a bar for each row, or a line through many rows.

import { h, s } from "../dom.js";
import { plural, text } from "../words.js";

const WIDTH = 960;
const HEIGHT = 160;
const BARS = 60;

/** Return a chart of one column of numbers, row by row; null if the rows have none, or are fewer than two. */
export function chart(page) {
  const columns = page.fields.map((_, at) => at).filter((at) => page.rows.some((row) => typeof row[at] === "number")
    && page.rows.every((row) => row[at] === null || typeof row[at] === "number"));
  if (page.rows.length < 2 || !columns.length) return null;
  // The first column names the rows, unless it is the only one with numbers.
  const values = columns.length > 1 && columns[0] === 0 ? columns.slice(1) : columns;
  const names = values.includes(0) ? null : 0;
  const figure = h("figure", { class: "chart" });
  const redraw = (value) => figure.replaceChildren(...parts(page, names, value, values, redraw));
  redraw(values[0]);
  return figure;
}

function parts(page, names, value, values, redraw) {
  const drawn = page.rows.map((row) => row[value] ?? 0);
  const [least, most] = [Math.min(0, ...drawn), Math.max(0, ...drawn)];
  const named = names === null ? "" : ` by ${page.fields[names]}`;
  const words = `${page.fields[value]}${named}: ${plural(drawn.length, "row")}, from ${text(Math.min(...drawn))} to ${text(Math.max(...drawn))}`;
  const height = (each) => (HEIGHT * (each - least)) / (most - least || 1);
  const label = (at) => (names === null ? `row ${at + 1}` : `${page.rows[at][names]}`);
  const shape = drawn.length > BARS ? line(drawn, height) : bars(drawn, height, (at) => `${label(at)}: ${text(drawn[at])}`);
  return [
    h("figcaption", { class: "row small" }, values.length > 1 && choice(page, value, values, redraw), h("span", { class: "soft" }, words)),
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words }, shape),
    h("div", { class: "row small soft" }, h("span", null, label(0)), h("span", { class: "grow" }), h("span", null, label(drawn.length - 1))),
  ];
}

function choice(page, value, values, redraw) {
  const list = h("select", { "aria-label": "Column", onchange: () => redraw(Number(list.value)) },
    values.map((at) => h("option", { value: `${at}`, selected: at === value }, page.fields[at])));
  return list;
}

function bars(drawn, height, title) {
  const width = WIDTH / drawn.length;
  const ground = height(0);
  return drawn.map((each, at) => {
    const top = height(each);
    const tall = Math.max(Math.abs(top - ground), 0.5);
    return s("rect", { x: at * width, y: HEIGHT - Math.max(top, ground), width: width * 0.85, height: tall }, s("title", null, title(at)));
  });
}

function line(drawn, height) {
  const points = drawn.map((each, at) => `${(WIDTH * at) / (drawn.length - 1)},${HEIGHT - height(each)}`);
  return s("polyline", { points: points.join(" ") });
}
