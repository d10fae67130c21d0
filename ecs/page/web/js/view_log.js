// What happened, newest first, with what is wrong now above it.
import { exact, match, severity } from "./logic.js";
import { button, chip, h, keyed, text } from "./dom.js";
import { alarms } from "./view_overview.js";
import { store } from "./api.js";

const filter = { kind: "", severity: "", text: "", logs: false }; // as it was left

export function log(root) {
  const wrong = alarms(), fine = h("p", { class: "allgood" }), list = h("ol", { class: "events long" }), count = h("p", { class: "note" }), kinds = h("select", { id: "log-kind" });
  const degree = h("select", { id: "log-severity" }, [["", "everything"], ["warning", "warnings and errors"], ["error", "errors"]].map(([v, t]) => h("option", { value: v }, t)));
  const words = h("input", { id: "log-text", type: "search", placeholder: "n2, stop, lost …", autocomplete: "off" }), logs = h("input", { id: "log-logs", type: "checkbox" });
  let held = null;
  const hold = button("Hold still", () => {
    held = held ? null : [...store.log.events];
    text(hold, held ? "Go on" : "Hold still");
    hold.setAttribute("aria-pressed", String(Boolean(held)));
    draw();
  }, { "aria-pressed": "false" });
  fine.append(chip({ text: "No alarm", kind: "running", mark: "tick" }));
  root.append(h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Log and alarms"), count), h("h2", { class: "sub" }, "Wrong now"), fine, wrong.root,
    h("h2", { class: "sub" }, "What happened"),
    h("div", { class: "filters", role: "search" }, h("label", { for: "log-kind" }, "Kind"), kinds, h("label", { for: "log-severity" }, "Show"), degree, h("label", { for: "log-text" }, "With"), words, h("label", { class: "check" }, logs, " log lines too"), hold),
    h("section", { class: "card" }, list));
  const fill = () => {
    const there = [...new Set(store.log.events.map((e) => e.kind))].sort();
    keyed(kinds, ["", ...there], (k) => k, (k) => h("option", { value: k }, k || "all kinds"));
    kinds.value = filter.kind;
  };
  const draw = () => {
    fill();
    const all = (held || store.log.events).filter((e) => match(e, filter)), shown = all.slice(-500).reverse();
    text(count, `${all.length} of ${store.log.events.length} remembered${all.length > 500 ? ", the newest 500 shown" : ""}${held ? "; held still" : ""}. Times are UTC.`);
    keyed(list, shown.length ? shown : [{ number: "none", at: "" }], (e) => `${e.number} ${e.at}`, (e) => {
      if (e.number === "none") return h("li", { class: "note" }, "Nothing of that kind.");
      const l = severity(e.severity);
      return h("li", { "data-kind": l.kind }, h("time", { datetime: e.at, title: `event ${e.number}` }, exact(e.at)), chip(l, "tiny"), h("span", { class: "kind" }, e.kind), h("span", { class: "about" }, e.component), h("span", { class: "words" }, e.text, e.user && !e.text.includes(e.user) ? h("small", {}, ` by ${e.user}`) : null, e.run ? h("a", { href: `#/runs/${e.run}` }, ` run ${e.run}`) : null));
    });
  };
  const alarmed = () => {
    wrong.update();
    fine.hidden = !wrong.root.hidden;
  };
  degree.value = filter.severity;
  words.value = filter.text;
  logs.checked = filter.logs;
  kinds.addEventListener("change", () => ((filter.kind = kinds.value), draw()));
  degree.addEventListener("change", () => ((filter.severity = degree.value), draw()));
  words.addEventListener("input", () => ((filter.text = words.value.trim()), draw()));
  logs.addEventListener("change", () => ((filter.logs = logs.checked), draw()));
  const off = [store.on("events", () => held || draw()), store.on("snapshot", alarmed)];
  draw();
  alarmed();
  return () => off.forEach((f) => f());
}
