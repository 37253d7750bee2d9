// What is wrong, and what to do, in plain words. It stands above every view.

import { h } from "./dom.js";
import { plural } from "./words.js";

/** Return what stands above the views: nothing while all is well. */
export function notice(live) {
  const status = live.status;
  if (live.connected === false) {
    return h("section", { class: "notice warn", "data-key": "lost" },
      h("h2", null, "This page has lost its server"),
      h("p", null, status?.fault ? "The topology had stopped; below is the last that was heard."
        : "The process may have ended, or is being restarted. The page tries again by itself, and shows the last that was heard meanwhile."),
      status?.fault && faultOf(status.fault));
  }
  if (status?.condition === "failed") {
    return h("section", { class: "notice bad", role: "alert", "data-key": "failed" },
      h("h2", null, `${stopped(status)}: ${status.fault.meaning}`), faultOf(status.fault));
  }
  if (status?.condition === "unreachable") {
    return h("section", { class: "notice bad", role: "alert", "data-key": "unreachable" },
      h("h2", null, "The states cannot be read now"), faultOf(status.fault));
  }
  if (status?.condition === "stopped") {
    return h("section", { class: "notice", "data-key": "stopped" },
      h("h2", null, "The run has ended in good order"),
      h("p", null, status.lasting ? "Everything that was committed is kept. The next start goes on behind it."
        : "It had no checkpointLocation: its states end with its process, and the next start begins anew."));
  }
  if (status?.condition === "inactive") {
    return h("section", { class: "notice", "data-key": "inactive" },
      h("h2", null, "The topology is inactive"),
      h("p", null, "It plans no new batch; states and functions answer as of the last one. running.activate() lets it go on."));
  }
  const held = (status?.groups ?? []).filter((group) => group.waitingFor);
  const hanging = [...(status?.hanging ?? []), ...(status?.groups ?? []).flatMap((group) => group.hanging)];
  if (!held.length && !hanging.length) return null;
  return h("section", { class: "notice warn", "data-key": "held" },
    held.length ? h("h2", null, `${plural(held.length, "batch group")} ${held.length === 1 ? "waits" : "wait"}`)
      : h("h2", null, "A call of your code is over its time"),
    held.map((group) => h("p", null, h("b", null, group.name), " waits for: ", h("span", { class: "code" }, group.waitingFor))),
    hanging.map((call) => h("p", null, h("span", { class: "code" }, call.call), call.at ? ` is at ${call.at}` : " has not returned")),
    h("p", { class: "soft" }, status.lasting ? "Nothing is lost meanwhile: a batch that waits is kept, and goes on by itself as soon as it can."
      : "A batch that waits goes on by itself as soon as it can. This run has no checkpointLocation: if its process ends, all of it is gone."));
}

/** Return what stopped: the topology, or those of its batch groups that others go on without. */
function stopped(status) {
  const ended = status.groups.filter((group) => !group.isActive).map((group) => group.name);
  return ended.length === status.groups.length ? "Stopped" : `Batch group ${ended.join(", ")} stopped`;
}

function faultOf(fault) {
  return [
    h("p", null, fault.kept),
    fault.wayOut.length > 0 && h("h3", null, "What to do"),
    fault.wayOut.length > 0 && h("ol", null, fault.wayOut.map((way) => h("li", null, way))),
    h("details", { open: true },
      h("summary", null, fault.type),
      h("pre", { tabindex: 0, "aria-label": "The error" }, [fault.message, ...fault.causes.map((cause) => `caused by ${cause}`)].join("\n\n"))),
  ];
}
