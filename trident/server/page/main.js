// The page: its address says which view shows what, the views draw it, and keys go through it.

import { h, show } from "./dom.js";
import { live, start } from "./live.js";
import { ask } from "./server.js";
import { notice } from "./notice.js";
import * as batches from "./views/batches.js";
import * as functions from "./views/functions.js";
import * as letters from "./views/letters.js";
import * as sql from "./views/sql.js";
import * as states from "./views/states.js";
import * as topology from "./views/topology.js";

const VIEWS = { topology, batches, states, functions, "dead-letters": letters, sql };
const TITLES = {
  topology: "Topology", batches: "Batches", states: "States", functions: "Functions", "dead-letters": "Dead letters", sql: "SQL",
};
const main = document.getElementById("main");
let plan = null;
let shown = null;

/** Return what the address says: the view, the thing in it, and the query. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  const known = Object.hasOwn(VIEWS, view) ? view : "topology";
  return { view: known, thing: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query) };
}

/** Draw the view anew, because the address has changed. */
async function go() {
  const at = place();
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.hash === `#/${at.view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const sameView = shown?.view === at.view;
  shown = at;
  const focused = document.activeElement;
  const same = focused?.id ? `#${CSS.escape(focused.id)}` : focused?.hasAttribute("href") ? `[href="${CSS.escape(focused.getAttribute("href"))}"]` : null;
  try {
    plan ??= await ask("/topology");
    if (shown !== at) return;
    document.title = `${TITLES[at.view]} · ${plan.name}`;
    document.getElementById("name").textContent = plan.name;
    // A view that draws itself in place keeps its root. Others get one of their own each time, so that an answer that
    // comes late is drawn where nobody looks any more.
    // Such a root may not be there yet, while an earlier call waits for the plan.
    const drawn = sameView && VIEWS[at.view].changed ? main.querySelector(":scope > .view") : null;
    const root = drawn ?? h("div", { class: "view" });
    if (root.parentNode !== main) main.replaceChildren(root);
    await VIEWS[at.view].draw(root, at, plan);
  } catch (error) {
    if (shown === at) main.replaceChildren(h("p", { class: "notice bad", role: "alert" }, error.message));
  }
  if (shown !== at) return;
  if (!sameView) window.scrollTo(0, 0);
  if (same && document.activeElement === document.body) main.querySelector(same)?.focus({ preventScroll: true });
  changed();
}

/** Bring what is drawn up to date, because something has come. */
function changed() {
  const condition = live.connected === false ? "disconnected" : live.status?.condition ?? "connecting";
  const chip = document.getElementById("condition");
  if (chip.textContent !== condition) chip.textContent = condition;
  chip.className = `chip ${condition}`;
  document.getElementById("engine").textContent = live.status
    ? live.status.engine ? `${live.status.engine} engine` : "read without its driver" : "";
  show(document.getElementById("notice"), notice(live));
  if (!plan && live.connected && shown) go();
  else if (plan && main.querySelector(":scope > .view")) VIEWS[shown.view].changed?.(main.firstElementChild, shown, plan);
}

// --- keys -----------------------------------------------------------------------------------------------------------

const keysOn = document.getElementById("keys-on");
keysOn.checked = localStorage.getItem("trident-keys") !== "off";
keysOn.addEventListener("change", () => localStorage.setItem("trident-keys", keysOn.checked ? "on" : "off"));

function move(step) {
  const links = [...main.querySelectorAll("[data-stop]")];
  const at = links.findIndex((link) => link.hasAttribute("aria-current") || link === document.activeElement);
  const next = links[Math.min(links.length - 1, Math.max(0, at < 0 ? 0 : at + step))];
  if (!next) return;
  location.hash = next.getAttribute("href");
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else main.querySelector("[data-close]")?.click();
    return;
  }
  if (typing || !keysOn.checked) return;
  const view = Object.keys(VIEWS)[Number(event.key) - 1];
  if (view) location.hash = `#/${view}`;
  else if (event.key === "/") main.querySelector("input:not([type=checkbox]), select, textarea")?.focus();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "t") changeTheme();
  else if (event.key === "?") document.getElementById("keys-dialog").showModal();
  else return;
  event.preventDefault();
});

document.getElementById("help").addEventListener("click", () => document.getElementById("keys-dialog").showModal());

// --- theme ----------------------------------------------------------------------------------------------------------

const themeButton = document.getElementById("theme");

function changeTheme() {
  const next = { auto: "light", light: "dark", dark: "auto" }[localStorage.getItem("trident-theme") ?? "auto"];
  localStorage.setItem("trident-theme", next);
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  nameTheme();
}

function nameTheme() {
  themeButton.textContent = `Theme: ${localStorage.getItem("trident-theme") ?? "auto"}`;
}

themeButton.addEventListener("click", changeTheme);
nameTheme();

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the view's, not the skip link's
  main.focus();
});
window.addEventListener("hashchange", go);
start(changed);
go();
