// Built events, one a second of them: their sources, sizes, banks and bytes. The samples come from the tap (docs/tap.md).
import { bytes, count, joined } from "./logic.js";
import { dump, sample, wanted } from "./quality.js";
import { attr, button, cell, h, keyed, table, text } from "./dom.js";
import { call, store } from "./api.js";
import { looking } from "./stream.js";
import { display } from "./view_display.js";

const columns = [
  { title: "Source", class: "n" }, { title: "Input", class: "words" }, { title: "Type" }, { title: "Version", class: "n" }, { title: "Size", class: "n" }, { title: "Banks", class: "words" },
];

const kept = 20; // events that can be gone back to
const filter = { sources: "", types: "" }; // as it was left

export function events(root) {
  const sum = h("p", { class: "note" }), state = h("p", { class: "note", role: "status" }), facts = h("dl", { class: "facts" }), t = table(columns, "Fragments of the event"), empty = h("p", { class: "empty-state" });
  const from = h("input", { id: "tap-sources", placeholder: "0-3, 7", autocomplete: "off" }), types = h("input", { id: "tap-types", placeholder: "VP, 63", autocomplete: "off" }), earlier = h("select", { id: "tap-event" });
  const open = new Set();
  let names = {}, seen = [], shown = null, held = false, last = null;
  const hold = button("Hold still", () => still(!held), { "aria-pressed": "false" });
  const f = h("form", { class: "filters", on: { submit: (e) => { e.preventDefault(); look(); } } }, h("label", { for: "tap-sources" }, "Sources"), from, h("label", { for: "tap-types" }, "Bank types"), types, h("button", { type: "submit" }, "Look"), h("label", { for: "tap-event" }, "Event"), earlier, hold);
  const card = h("section", { class: "card full eventbox" }, facts, t.wide);
  const picture = display();
  root.append(h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Events"), sum), f, state, picture.root, card, empty);
  from.value = filter.sources;
  types.value = filter.types;
  const pair = (k, v) => h("div", {}, h("dt", {}, k), h("dd", {}, v));
  const key = (e) => `${e.run} ${e.event} ${e.attempt}`;
  const still = (on) => {
    held = on;
    text(hold, held ? "Go on" : "Hold still");
    hold.setAttribute("aria-pressed", String(held));
    if (!held && seen.length) shown = seen[0];
    draw();
  };
  const row = (r) => {
    if (r.more) return h("tr", { class: "more" }, h("td", { colspan: columns.length }, h("pre", { class: "dump", tabindex: "0", "aria-label": `Bytes of source ${r.f.source}` })));
    const tr = h("tr", {}, columns.map((c) => cell(c)));
    tr.toggle = button("", () => {
      if (!open.delete(tr.source)) open.add(tr.source);
      draw();
    }, { class: "toggle", "aria-expanded": "false" });
    tr.children[0].append(tr.toggle);
    return tr;
  };
  const fill = (tr, { f, more }) => {
    if (more) return text(tr.firstChild.firstChild, f.data === null ? "The bytes were not sent." : f.data.length ? dump(f.data, f.size) : "No bytes.");
    const td = tr.children, input = ((store.snapshot && store.snapshot.sources) || []).find((x) => x.source === f.source);
    tr.source = f.source;
    text(tr.toggle, String(f.source));
    attr(tr.toggle, "aria-expanded", String(open.has(f.source)));
    attr(tr.toggle, "aria-label", `Source ${f.source}, its bytes`);
    text(td[1], input ? input.name : "–");
    text(td[2], f.missing ? "missing" : `${f.name} (${f.type})`);
    td[2].classList.toggle("odd", f.missing);
    text(td[3], String(f.version));
    text(td[4], count(f.size) + "\u202fB");
    td[4].style.setProperty("--share", (shown.largest ? f.size / shown.largest : 0).toFixed(3));
    td[4].classList.add("share");
    text(td[5], f.banks.map((b) => `${b.name} ${b.size}\u202fB`).slice(0, 12).join(", ") + (f.banks.length > 12 ? ` and ${f.banks.length - 12} more` : "") + (f.fault ? ` – ${f.fault}` : "") || "–");
  };
  const draw = () => {
    const e = shown, on = store.status && store.status.root && store.status.root.state === "Running";
    card.hidden = !e;
    empty.hidden = Boolean(e);
    text(empty, !on ? "No run is on. Built events appear here while one goes on." : last && !last.builders ? "No builder unit can be looked at yet." : "Waiting for an event that has what was asked for. Events of which more than 16 MiB would be shown are left out: ask for fewer sources then.");
    text(sum, last ? `${count(last.built)} built since you look${Number(last.dropped) ? `; ${count(last.dropped)} dropped on the way` : ""}${Number(last.unreadable) ? `; ${count(last.unreadable)} MEPs could not be read` : ""}. One a second is shown.` : "");
    text(state, ((last && last.problems) || []).join(" "));
    keyed(earlier, seen, key, (x) => h("option", { value: key(x) }, `${x.event} of run ${x.run}`));
    if (e) earlier.value = key(e);
    picture.show(e);
    if (!e) return;
    if (facts.shownEvent !== e) facts.replaceChildren(pair("Event", count(e.event)), pair("Run", String(e.run)), pair("Size", joined(bytes(e.size))), pair("Fragments", `${e.fragments.length}${e.missing ? `, ${e.missing} missing` : ""}`), pair("Built by", e.builder || "–"), pair("MEP", count(e.mep) + (e.attempt > 1 ? `, attempt ${e.attempt}` : "")));
    facts.shownEvent = e; // a selection lives until the next one
    t.wide.classList.toggle("tall", e.fragments.length > 20); // it scrolls within itself, and the headings stay
    t.wide.classList.toggle("sticky", e.fragments.length > 20);
    keyed(t.body, e.fragments.flatMap((f) => (open.has(f.source) ? [{ f }, { f, more: true }] : [{ f }])), (r) => `${r.f.source}${r.more ? " bytes" : ""}`, row, fill);
  };
  const take = (m) => {
    last = m;
    text(state, "");
    for (const e of m.events || []) seen.unshift(sample(e, names));
    seen.splice(kept);
    if (held && shown && !seen.some((e) => key(e) === key(shown))) seen[kept - 1] = shown; // what is held can be chosen
    if (!held && seen.length) shown = seen[0];
    draw();
  };
  const ask = () => {
    filter.sources = from.value.trim();
    filter.types = types.value.trim();
    return wanted(filter);
  };
  const { look, end } = looking({ ask, take, tell: (why) => text(state, why) });
  earlier.addEventListener("change", () => {
    shown = seen.find((e) => key(e) === earlier.value) || shown;
    still(true);
  });
  const off = store.on("status", draw);
  call("GET", "/banktypes.json").then((list) => (names = list), () => {}).then(look); // without it, types are numbers
  draw();
  return () => {
    end();
    off();
    picture.end();
  };
}
