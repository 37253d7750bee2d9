// The DRPC functions: a form of typed arguments for each, and its answer.

import { h } from "../dom.js";
import { ask, parse } from "../server.js";
import { duration, plural } from "../words.js";
import { asOf, rows } from "./states.js";

const WHOLE = /^(tinyint|smallint|int|bigint|long|integer|short|byte)/;
const NUMBER = /^(float|double|real)/;

export async function draw(root, at, plan) {
  root.replaceChildren(h("h2", { class: "aside" }, "Functions"));
  if (!plan.functions.length) {
    root.append(h("p", { class: "panel soft" }, "This topology has no DRPC function: topology.newDRPCStream(...) makes one."));
    return;
  }
  const chosen = plan.functions.find((each) => each.name === at.thing) ?? (at.thing ? null : plan.functions[0]);
  const panel = h("section", { class: "panel browser", "aria-label": chosen?.name ?? "no such function" });
  root.append(h("div", { class: "side" }, h("nav", { class: "panel list", "aria-label": "Functions" },
    plan.functions.map((each) => h("a", { href: `#/functions/${encodeURIComponent(each.name)}`, "data-stop": true, "aria-current": each === chosen ? "true" : null },
      h("b", null, each.name), h("span", { class: "soft small" }, plural(each.arguments.length, "argument"))))), panel));
  if (!chosen) {
    panel.append(h("p", { class: "bad", role: "alert" }, `There is no function ${at.thing}.`));
    return;
  }
  const result = h("div", { class: "result", "aria-live": "polite" });
  panel.append(h("h3", null, chosen.name),
    h("p", { class: "code small" }, `${chosen.signature} → ${chosen.answers.map((field) => `${field.name} ${field.type}`).join(", ")}`),
    form(chosen, at, result), result);
  // An address with arguments is a question that somebody shared: a function only reads, so it is asked at once.
  if (chosen.arguments.some((field) => at.query.has(field.name)) || at.query.has("ask")) await answer(chosen, at.query, result);
}

function form(chosen, at, result) {
  const fields = chosen.arguments.map((field, number) => {
    const id = `argument-${number}`;
    const type = WHOLE.test(field.type) || NUMBER.test(field.type) ? "decimal" : "text";
    const input = field.type === "boolean" || field.type === "bool"
      ? h("select", { id, name: field.name }, ["true", "false"].map((value) => h("option", { selected: at.query.get(field.name) === value }, value)))
      : h("input", { id, name: field.name, inputmode: type, value: at.query.get(field.name) ?? "", autocomplete: "off", spellcheck: "false" });
    return h("div", { class: "field" }, h("label", { for: id }, field.name, " ", h("span", { class: "soft" }, field.type)), input);
  });
  const submit = (event) => {
    event.preventDefault();
    const query = new URLSearchParams(new FormData(event.target));
    if (!query.size) query.set("ask", "1");
    const address = `#/functions/${encodeURIComponent(chosen.name)}?${query}`;
    if (location.hash === address) answer(chosen, query, result);
    else location.hash = address;
  };
  return h("form", { onsubmit: submit, class: "arguments" }, fields, h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Ask")));
}

/** Return an argument's value from what was typed: numbers, booleans and nested types as JSON, everything else as text. */
function valueOf(typed, type) {
  if (/^(string|binary|date|timestamp|decimal|large_string)/.test(type)) return typed;
  try {
    return parse(typed);
  } catch {
    return typed; // the server says what it expects
  }
}

async function answer(chosen, query, result) {
  result.replaceChildren(h("p", { class: "soft" }, "asking…"));
  const args = Object.fromEntries(chosen.arguments.filter((field) => query.has(field.name)).map((field) => [field.name, valueOf(query.get(field.name), field.type)]));
  const began = performance.now();
  try {
    const told = await ask(`/drpc/${encodeURIComponent(chosen.name)}`, { args });
    result.replaceChildren(rows(told), h("div", { class: "row" }, h("span", { class: "soft small" }, `${plural(told.rows.length, "row")} in ${duration(performance.now() - began)}`),
      h("span", { class: "grow" }), asOf(told)));
  } catch (error) {
    result.replaceChildren(h("p", { class: "bad", role: "alert" }, h("b", null, error.type), ` ${error.message}`));
  }
}
