// The dead letters: tuples on which a function failed, with their errors, and their way back.

import { h } from "../dom.js";
import { ask } from "../server.js";
import { number, plural } from "../words.js";

const MOST = 500;

function address(query) {
  const told = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  return `#/dead-letters${told.size ? `?${told}` : ""}`;
}

export async function draw(root, at) {
  const title = h("h2", { class: "aside" }, "Dead letters");
  const body = await ask(`/dead-letters?limit=${MOST}`);
  if (!body.states.length) {
    root.replaceChildren(title, h("p", { class: "panel soft" },
      "No state keeps dead letters. Give a step onError=\"deadLetter\" and write topology.deadLetterState(...) behind it: then tuples on which its function fails are kept here with their errors."));
    return;
  }
  const state = body.states.find((each) => each.state === at.query.get("state")) ?? body.states[0];
  const step = at.query.get("step");
  const error = at.query.get("error");
  const fitting = state.letters.filter((letter) => (!step || letter.step === step) && (!error || letter.error === error));
  const chosen = state.letters.find((letter) => letter.id === at.query.get("letter"));
  const same = { state: at.query.get("state"), step, error };
  const table = h("section", { class: "panel", "aria-label": "Letters" });
  const told = h("p", { class: "small", role: "status" });
  root.replaceChildren(title, filters(body, state, same), told, h("div", { class: chosen ? "split open" : "split" }, table,
    h("section", { class: "detail panel", "aria-label": "The letter" }, chosen ? detail(chosen, same) : null)));
  if (!fitting.length) {
    table.append(h("p", { class: "soft" }, state.letters.length ? "No letter fits." : "No dead letters: no tuple has failed, or all went back."));
    return;
  }
  table.append(list(fitting, chosen, same), replaying(body, state, fitting, at, told));
}

function filters(body, state, same) {
  const counts = (field) => Object.entries(Object.groupBy ? Object.groupBy(state.letters, (letter) => letter[field]) : grouped(state.letters, field))
    .map(([value, letters]) => [value, letters.length]).sort((a, b) => b[1] - a[1]);
  const pills = (field) => counts(field).map(([value, count]) => h("a", {
    class: "pill", href: address({ ...same, [field]: same[field] === value ? "" : value }), "aria-current": same[field] === value ? "true" : null,
  }, h("span", { class: "code" }, value), h("span", { class: "soft" }, ` ${number(count)}`)));
  const kept = state.count > state.letters.length ? `the newest ${number(state.letters.length)} of ${plural(state.count, "letter")}` : plural(state.count, "letter");
  return h("div", { class: "filters" },
    body.states.length > 1 && h("div", { class: "row pills" }, body.states.map((each) => h("a", { class: "pill", href: address({ state: each.state }), "aria-current": each === state ? "true" : null }, each.state))),
    h("p", { class: "soft small" }, `${kept} in state ${state.state}`),
    state.letters.length > 0 && h("div", { class: "row pills", role: "group", "aria-label": "Steps" }, pills("step")),
    state.letters.length > 0 && h("div", { class: "row pills", role: "group", "aria-label": "Errors" }, pills("error")));
}

function grouped(letters, field) {
  const groups = {};
  for (const letter of letters) (groups[letter[field]] ??= []).push(letter);
  return groups;
}

function list(letters, chosen, same) {
  return h("table", { class: "letters" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "batch"), h("th", { scope: "col", class: "wide" }, "step"), h("th", { scope: "col" }, "error"), h("th", { scope: "col", class: "stretch wide" }, "tuple"))),
    h("tbody", null, letters.slice(0, 200).map((letter) => h("tr", null,
      h("td", null, h("a", { href: address({ ...same, letter: letter.id }), "data-stop": true, "aria-current": letter === chosen ? "true" : null }, letter.txid)),
      h("td", { class: "wide code small" }, letter.step),
      h("td", null, h("b", { class: "small" }, letter.error), " ", h("span", { class: "soft small" }, letter.message)),
      h("td", { class: "stretch wide code small" }, letter.tuple)))));
}

function detail(letter, same) {
  let tuple = letter.tuple;
  try {
    tuple = JSON.stringify(JSON.parse(letter.tuple), null, 2);
  } catch {
    // it is shown as it is
  }
  return [
    h("div", { class: "row head" }, h("h3", null, letter.error), h("span", { class: "grow" }), h("a", { href: address(same), "data-close": true, class: "plain" }, "Close")),
    h("p", null, letter.message),
    h("pre", { tabindex: 0, "aria-label": "The tuple" }, tuple),
    h("dl", { class: "pairs" }, [["stream", letter.stream], ["step", letter.step], ["function", letter.function], ["batch", `${letter.txid}, attempt ${letter.attempt}`], ["id", letter.id]]
      .map(([name, value]) => [h("dt", null, name), h("dd", { class: "code small" }, value)])),
  ];
}

function replaying(body, state, letters, at, told) {
  const streams = [...new Set(letters.map((letter) => letter.stream))];
  const ways = streams.filter((stream) => body.replayable.includes(stream));
  if (!ways.length) {
    return h("p", { class: "soft small" }, `To put letters back, write replayable() in the stream ${streams.join(", ")}, before the step that fails.`);
  }
  if (!body.canReplay) return h("p", { class: "soft small" }, "Letters go back only through a driver that runs: open the page of running.serve().");
  return h("div", { class: "row" }, ways.map((stream) => {
    const mine = letters.filter((letter) => letter.stream === stream);
    const every = mine.length === state.count;
    return h("button", { type: "button", onclick: () => putBack(stream, state.state, every ? null : mine.map((letter) => letter.id), mine.length, told) },
      `Put ${plural(mine.length, "letter")} back into ${stream}…`);
  }));
}

async function putBack(stream, state, ids, count, told) {
  const dialog = document.getElementById("replay-dialog");
  document.getElementById("replay-text").textContent = `${plural(count, "tuple")} will enter ${stream} again in the next batch, and leave this state in that very batch. A tuple that fails again is a new letter.`;
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (dialog.returnValue !== "yes") return;
  try {
    const { replayed } = await ask("/dead-letters/replay", { stream, state, ids });
    told.textContent = `${plural(replayed, "letter")} on the way back into ${stream}.`;
    setTimeout(() => window.dispatchEvent(new HashChangeEvent("hashchange")), 1500);
  } catch (error) {
    told.textContent = error.message;
  }
}
