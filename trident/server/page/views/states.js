// The states: what is promised for each, its entries by pages, the greatest ones, one key.

import { h } from "../dom.js";
import { now } from "../live.js";
import { ask, json } from "../server.js";
import { ago, number, plural, promised, text } from "../words.js";
import { guarantee } from "./topology.js";

const PAGE = 50;

function address(name, query = {}) {
  const told = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined));
  return `#/states/${encodeURIComponent(name)}${told.size ? `?${told}` : ""}`;
}

export async function draw(root, at, plan) {
  const state = plan.states.find((each) => each.name === at.thing) ?? (at.thing ? null : plan.states[0]);
  if (!plan.states.length) {
    root.replaceChildren(h("h2", { class: "aside" }, "States"), h("p", { class: "panel soft" }, "This topology writes no state."));
    return;
  }
  const content = h("section", { class: "panel browser", "aria-label": state?.name ?? "no such state" });
  root.replaceChildren(h("h2", { class: "aside" }, "States"), h("div", { class: "side" }, list(plan, state), content));
  if (!state) {
    content.append(h("p", { class: "bad", role: "alert" }, `There is no state ${at.thing}.`));
    return;
  }
  content.append(head(state), forms(state, at));
  const result = h("div", { class: "result", "aria-live": "polite" }, h("p", { class: "soft" }, "reading…"));
  content.append(result);
  try {
    result.replaceChildren(...await entries(state, at));
  } catch (error) {
    result.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
  }
}

function list(plan, chosen) {
  return h("nav", { class: "panel list", "aria-label": "States" }, plan.states.map((state) =>
    h("a", { href: address(state.name), "data-stop": true, "aria-current": state === chosen ? "true" : null },
      h("b", null, state.name), h("span", { class: state.exactlyOnce ? "soft small" : "warn small" }, promised(state.promise)))));
}

function head(state) {
  const keys = state.keys.map((field) => `${field.name} ${field.type}`).join(", ");
  return h("div", null, h("h3", null, state.name),
    h("p", { class: "code small" }, keys ? `(${keys}) → ${state.value.name} ${state.value.type}` : `${state.value.name} ${state.value.type}`),
    guarantee(state));
}

function forms(state, at) {
  const key = h("input", { id: "key", name: "key", value: at.query.get("key") ?? "", autocomplete: "off", spellcheck: "false" });
  const look = (event) => {
    event.preventDefault();
    location.hash = address(state.name, { key: key.value });
  };
  const hint = state.keys.length > 1 ? "a JSON list, such as " + JSON.stringify(state.keys.map((field) => field.type === "string" ? "dog" : 7)) : state.keys[0]?.type;
  const tab = (name, query, on) => h("a", { class: "pill", href: address(state.name, query), "aria-current": on ? "true" : null }, name);
  const top = at.query.get("top");
  if (!state.keys.length) return null;
  return h("div", { class: "row filters" },
    h("div", { class: "row pills" }, tab("by key", {}, !top && !at.query.has("key")), tab("greatest", { top: "20" }, Boolean(top))),
    h("form", { class: "row", onsubmit: look }, h("label", { for: "key" }, "Key"), key, h("span", { class: "soft small" }, hint),
      h("button", { type: "submit" }, "Look up")));
}

async function entries(state, at) {
  const name = encodeURIComponent(state.name);
  const key = at.query.get("key");
  if (key !== null || !state.keys.length) {
    // A key is sent in a body: in a path, "." and "..", "" and "changes" mean something else.
    const one = await ask(`/state/${name}`, `{"keys":[${state.keys.length ? keyJson(key, state) : "[]"}]}`);
    const [value] = one.values;
    if (value === null) return [h("p", { class: "soft" }, key === null ? "Nothing is stored yet." : `Nothing is stored under ${key === "" ? "the empty text" : key}.`), again(at)];
    return [h("p", { class: "value code" }, text(value)), asOf(one), again(at)];
  }
  const top = at.query.get("top");
  const after = at.query.get("after");
  const query = top ? { top, ...(at.query.get("by") ? { by: at.query.get("by") } : {}) } : { limit: PAGE, ...(after ? { after } : {}) };
  const page = await ask(`/state/${name}?${new URLSearchParams(query)}`);
  const more = page.after && h("a", { class: "button", href: address(state.name, { after: page.after }) }, "Next page");
  const first = after && h("a", { class: "button", href: address(state.name) }, "First page");
  return [rows(page, state), h("div", { class: "row" }, first, more, h("span", { class: "soft small" }, plural(page.rows.length, "entry", "entries")), h("span", { class: "grow" }), asOf(page), again(at))];
}

/** Return a table of rows; the cells of keys lead to the key. */
export function rows(page, state) {
  if (!page.rows.length) return h("p", { class: "soft" }, "No entries.");
  const keys = state?.keys.length ?? 0;
  const numeric = page.fields.map((_, at) => page.rows.every((row) => row[at] === null || typeof row[at] === "number" || typeof row[at] === "bigint"));
  const cell = (row, value, at) => h("td", { class: numeric[at] ? "num code" : "code" }, at < keys && at === 0
    ? h("a", { href: address(state.name, { key: keyText(row.slice(0, keys), state) }) }, text(value)) : text(value));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows" }, h("table", null,
    h("thead", null, h("tr", null, page.fields.map((field, at) => h("th", { scope: "col", class: numeric[at] ? "num" : null }, field)))),
    h("tbody", null, page.rows.map((row) => h("tr", null, row.map((value, at) => cell(row, value, at)))))));
}

const isPlain = (state) => state.keys.length === 1 && /^(string|binary|date|timestamp)/.test(state.keys[0].type);

/** Return a key as it stands in the field: text, dates and binary as they are, everything else as JSON. */
function keyText(key, state) {
  if (key.length > 1) return json(key);
  return isPlain(state) && typeof key[0] === "string" ? key[0] : json(key[0]);
}

/** Return what stands in the field as JSON. What is none is sent as a text: the server says what it expects. */
function keyJson(typed, state) {
  if (isPlain(state)) return JSON.stringify(typed);
  try {
    JSON.parse(typed);
    return typed; // as it is: a long whole number stays exact
  } catch {
    return JSON.stringify(typed);
  }
}

/** Return as of which batches an answer is, and how long ago they were committed. */
export function asOf(answer) {
  const times = answer.committedAt ?? {};
  const told = Object.entries(answer.asOfTxid ?? {}).map(([group, txid]) => `${group} ${number(txid)}`
    + (times[group] ? `, committed ${ago(now() - Date.parse(times[group]))}` : "")).join("; ");
  return h("span", { class: "soft small" }, told ? `as of batch ${told}` : "the latest values");
}

function again() {
  return h("button", { type: "button", class: "plain", onclick: () => window.dispatchEvent(new HashChangeEvent("hashchange")) }, "Read again");
}
