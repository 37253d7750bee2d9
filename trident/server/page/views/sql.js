// A SQL query over the states, with a chart of its rows.

import { h } from "../dom.js";
import { ask } from "../server.js";
import { duration, plural } from "../words.js";
import { chart } from "./chart.js";
import { asOf, rows } from "./states.js";

const address = (query) => `#/sql?${new URLSearchParams({ q: query })}`;

export async function draw(root, at, plan) {
  const result = h("div", { class: "result", "aria-live": "polite" });
  root.replaceChildren(h("h2", { class: "aside" }, "SQL"),
    h("section", { class: "panel browser", "aria-label": "SQL" }, form(at, result), states(plan), result));
  // An address with a query is one that somebody shared: a query only reads, so it is asked at once.
  if (at.query.get("q")) await answer(at.query.get("q"), result);
}

function form(at, result) {
  const box = h("textarea", { id: "query", rows: 5, spellcheck: "false", autocapitalize: "off", placeholder: "select ..." });
  box.value = at.query.get("q") ?? "";
  const submit = (event) => {
    event?.preventDefault();
    if (!box.value.trim()) return;
    if (location.hash === address(box.value)) answer(box.value, result);
    else location.hash = address(box.value);
  };
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  });
  return h("form", { onsubmit: submit }, h("label", { for: "query" }, "Query"), box,
    h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Run"),
      h("span", { class: "soft small" }, "Ctrl+Enter runs it. A query only reads.")));
}

/** Return the tables that a query can name, each with a link to its first rows. */
function states(plan) {
  if (!plan.states.length) return h("p", { class: "soft" }, "This topology writes no state.");
  return h("p", { class: "row small" }, h("span", { class: "soft" }, "States:"), plan.states.map((state) =>
    h("a", { class: "code", href: address(`select * from ${named(state.name)} limit 20`) }, state.name)));
}

const named = (name) => (/^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

async function answer(query, result) {
  const began = performance.now();
  result.replaceChildren(h("p", { class: "soft" }, "running…"));
  try {
    const page = await ask("/sql", { query });
    result.replaceChildren(...[chart(page), rows(page, null)].filter(Boolean), h("div", { class: "row" },
      h("span", { class: "soft small" }, `${plural(page.rows.length, "row")} in ${duration(performance.now() - began)}`),
      h("span", { class: "grow" }), asOf(page)));
  } catch (error) {
    result.replaceChildren(h("pre", { class: "bad code", role: "alert" }, error.message));
  }
}
