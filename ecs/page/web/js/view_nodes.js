// The nodes: what each does, what it takes, how old its report is.
import { bits, bytes, count, explained, joined, look, micros, nodesOf, num, short, witness } from "./logic.js";
import { attr, button, cell, chip, h, keyed, setChip, table, text } from "./dom.js";
import { acts } from "./commands.js";
import { store } from "./api.js";

const columns = [
  { title: "Node" }, { title: "State" }, { title: "Units" }, { title: "Sends", class: "n", help: "bytes of its readout unit" }, { title: "Builds", class: "n", help: "bytes of MEPs that its builder unit completes" },
  { title: "CPUs", class: "n", help: "processors in use; 1 is one of them" }, { title: "Memory", class: "n", help: "the largest it had" },
  { title: "Clock", class: "n", help: "offset of its clock to the control's, uncertain by half a round trip" }, { title: "Report", class: "n", help: "time since it last reported" }, { title: "" },
];

const units = (n) => [n.readout && `RU ${num(n.ruIndex)}`, n.builder && `BU ${num(n.buIndex)}`].filter(Boolean).join(", ") || "–";

export function nodes(root) {
  const t = table(columns, "Nodes"), empty = h("p", { class: "empty-state" }, "No node is there yet. Start some with ", h("code", {}, "ringlet node"), "; they appear here when they have joined."), open = new Set();
  const sum = h("p", { class: "note" });
  t.wide.classList.add("cards");
  root.append(h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Nodes"), sum), t.wide, empty);
  const rows = () => {
    const known = new Map(nodesOf(store.status).map((c) => [c.name, { name: c.name, c }]));
    for (const n of (store.snapshot && store.snapshot.nodes) || []) known.set(n.name, { ...(known.get(n.name) || { name: n.name }), f: n });
    const all = [...known.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    return all.flatMap((n) => (open.has(n.name) ? [{ key: n.name, n }, { key: `${n.name} counters`, n, counters: true }] : [{ key: n.name, n }]));
  };
  const make = (r) => {
    if (r.counters) return h("tr", { class: "more" }, h("td", { colspan: columns.length }, h("div", { class: "counters" })));
    const toggle = button("", () => {
      if (!open.delete(r.n.name)) open.add(r.n.name);
      draw();
    }, { class: "toggle", "aria-expanded": "false" });
    const tr = h("tr", {}, columns.map((c) => cell(c)));
    tr.toggle = toggle;
    tr.state = chip(look(null));
    tr.flag = h("span", { class: "flag" }, "DEGRADED");
    tr.children[0].append(toggle);
    tr.children[1].append(tr.state, " ", tr.flag);
    tr.acts = h("span", { class: "acts" });
    tr.children[9].append(tr.acts);
    return tr;
  };
  const counters = (tr, n) => {
    const list = Object.entries((n.f && n.f.counters) || {}).filter(([, v]) => num(v)).sort(([a], [b]) => (a < b ? -1 : 1));
    const facts = Object.entries((n.c && n.c.facts) || {}), box = tr.querySelector(".counters");
    const cause = n.c && n.c.cause && n.c.cause.what ? [["why", `${n.c.cause.what} – seen by: ${witness(n.c.cause.evidence) || "–"}`, true]] : [];
    const all = [...cause, ...facts.map(([k, v]) => [k, v, true]), ...list.map(([k, v]) => [k, count(v)])];
    keyed(box, all.length ? all : [["none", "No counters: they begin with a run.", true]], ([k]) => k, ([k, , words]) => h("div", { class: words ? "fact" : "", title: explained(store.counters, k) }, h("span", {}, k === "none" ? "" : k), h("b")), (e, [, v]) => text(e.lastChild, v));
  };
  const draw = () => {
    const list = rows();
    empty.hidden = list.length > 0;
    t.wide.hidden = !list.length;
    const total = list.filter((r) => !r.counters), running = total.filter((r) => r.n.c && r.n.c.state === "Running" && !r.n.c.inError && r.n.c.included !== false).length;
    text(sum, total.length ? `${total.length} known, ${running} running. Press a name for its counters.` : "");
    keyed(t.body, list, (r) => r.key, make, (tr, { n, counters: more }) => {
      if (more) return counters(tr, n);
      const f = n.f || {}, c = n.c || { state: f.state, included: true }, td = tr.children;
      text(tr.toggle, n.name);
      attr(tr.toggle, "aria-expanded", String(open.has(n.name)));
      setChip(tr.state, look(c));
      tr.flag.hidden = !c.degraded;
      text(td[2], n.f ? units(f) : (c.facts && c.facts.role) || "–");
      text(td[3], n.f && f.readout ? joined(bits(f.sentBytesPerS)) : "–");
      text(td[4], n.f && f.builder ? joined(bits(f.builtBytesPerS)) : "–");
      text(td[5], n.f ? short(num(f.cpus)) : "–");
      text(td[6], n.f ? joined(bytes(f.maxRssBytes)) : "–");
      text(td[7], n.f ? (num(f.clockOffsetUs) > 0 ? "+" : "") + micros(f.clockOffsetUs) : "–");
      text(td[8], n.f ? `${short(num(f.reportAgeMs) / 1000)}\u202fs` : "–");
      td[7].classList.toggle("odd", Math.abs(num(f.clockOffsetUs)) > 5000);
      td[8].classList.toggle("odd", num(f.reportAgeMs) > 3000);
      acts(tr.acts, n.c ? { ...c, name: n.name } : null);
    });
  };
  const off = ["snapshot", "status", "connection"].map((topic) => store.on(topic, draw));
  draw();
  return () => off.forEach((f) => f());
}
