// The live sources: what each gives, what is missing of it, and how that was over the last minutes.
import { bits, bytes, count, joined, micros, num, rate } from "./logic.js";
import { condition, lacking, measures } from "./quality.js";
import { drawHeat, heatAt } from "./heat.js";
import { attr, cell, chip, h, keyed, setChip, table, text } from "./dom.js";
import { alarms } from "./view_overview.js";
import { slowData } from "./values.js";
import { store } from "./api.js";

const columns = [
  { title: "Source", class: "n", help: "its id: the place in the input" }, { title: "State" }, { title: "Input", class: "words", help: "below: the front-end, as it calls itself, and where it is; of one that is gone, the last one" }, { title: "Node" },
  { title: "Rate", class: "n", help: "fragments a second, over two seconds" }, { title: "Data", class: "n", help: "over two seconds" }, { title: "Size", class: "n", help: "mean of a fragment" },
  { title: "Missing", class: "n", help: "fragments that were not there when their event was built" }, { title: "Thrown away", class: "n", help: "they came and are not used: late, repeated, or with a number that ran backwards or jumped" },
  { title: "Refused", class: "n", help: "connections and messages that break the format: a stranger's, too" }, { title: "Lost", class: "n", help: "of which a part did not come, or dropped by the front-end" }, { title: "Newest event", class: "n" }, { title: "Age", class: "n", help: "since the newest fragment came" },
];

let chosen = measures[0]; // as it was left

// map is the heat map with its choice of measure.
function map() {
  const canvas = h("canvas", { class: "heatmap", role: "img" }), says = h("p", { class: "note says" }), choice = h("select", { id: "heat-measure" }, measures.map((m) => h("option", { value: m.id }, m.title)));
  const root = h("section", { class: "card full" }, h("div", { class: "head" }, h("h2", {}, "The last five minutes"), h("label", { class: "note", for: "heat-measure" }, "Shown"), choice), canvas, says);
  const idle = () => `Sources down, time across: the fuller the colour, the ${chosen.id === "age" ? "older" : "more"}. Empty: no report, or no run. Point at a cell to read it.`;
  let g = store.heat.grid(chosen), over = null;
  const read = () => {
    const at = over && heatAt(canvas, g, over);
    text(says, at ? `Source ${at.id}, ${new Date(at.at * 1000).toISOString().slice(11, 19)} UTC, ${g.step} s: ${chosen.write(at.v)}.` : idle());
  };
  const draw = () => {
    g = store.heat.grid(chosen);
    attr(canvas, "aria-label", `${chosen.title} of ${g.ids.length} sources over five minutes; the table above has the figures of now`);
    drawHeat(canvas, g, chosen);
    read();
  };
  choice.value = chosen.id;
  choice.addEventListener("change", () => {
    chosen = measures.find((m) => m.id === choice.value);
    draw();
  });
  canvas.addEventListener("pointermove", (e) => {
    over = e;
    read();
  });
  canvas.addEventListener("pointerleave", () => {
    over = null;
    read();
  });
  const seen = new ResizeObserver(draw);
  seen.observe(root);
  return { root, draw, end: () => seen.disconnect() };
}

export function sources(root) {
  const t = table(columns, "Sources"), wrong = alarms((a) => a.rule.startsWith("source-") || a.rule === "slow-source"), heat = map(), slow = slowData(), sum = h("p", { class: "note" });
  const empty = h("p", { class: "empty-state" }, "No live sources. This screen is for data that come from front-ends (", h("code", {}, "--input tcp:…,shm:…"), "): generated and replayed data have their rates under Nodes.");
  t.wide.classList.add("cards", "sources");
  root.append(h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Sources"), sum), wrong.root, t.wide, heat.root, empty, slow.root);
  const draw = () => {
    const s = store.snapshot || {}, all = s.sources || [];
    wrong.update();
    slow.update(s);
    empty.hidden = all.length > 0;
    t.wide.hidden = heat.root.hidden = !all.length;
    const missing = all.reduce((n, x) => n + num(x.missing), 0);
    text(sum, all.length ? `${all.length} live; ${missing ? `${count(missing)} fragments missing` : "no fragment is missing"}.` : "");
    keyed(t.body, all, (x) => num(x.source), (x) => {
      const tr = h("tr", {}, columns.map((c) => cell(c)));
      tr.state = chip(condition(x));
      tr.children[1].append(tr.state);
      tr.children[2].append(h("span"), h("small"));
      return tr;
    }, (tr, x) => {
      const td = tr.children, any = num(x.fragments) > 0;
      text(td[0], String(num(x.source)));
      setChip(tr.state, condition(x, s.alarms));
      text(td[2].firstChild, x.name);
      td[2].title = x.input;
      text(td[2].lastChild, [x.readiness, x.frontend].filter(Boolean).join(" · "));
      td[2].classList.toggle("odd", /^failed/.test(x.readiness || ""));
      text(td[3], x.node ? `${x.node}, RU ${num(x.ruIndex)}` : "–");
      text(td[4], joined(rate(x.fragmentsPerS)));
      text(td[5], joined(bits(x.bytesPerS)));
      text(td[6], any ? joined(bytes(x.meanSize)) : "–");
      text(td[7], count(x.missing) + (lacking(x) ? ` (${lacking(x)})` : ""));
      text(td[8], count(x.thrown));
      text(td[9], count(x.refused));
      text(td[10], count(num(x.lost) + num(x.dropped)));
      text(td[11], any ? count(x.lastEvent) : "–");
      text(td[12], any ? micros(x.ageUs) : "–");
      td[8].title = x.whyThrown ? `The last since: ${x.whyThrown}` : "";
      td[9].title = x.whyRefused ? `Refused, the last one because: ${x.whyRefused}` : "";
      td[7].classList.toggle("odd", num(x.missingPerS) > 0);
      td[12].classList.toggle("odd", any && num(x.ageUs) > 2e6 && num(s.run) > 0);
    });
    if (all.length) heat.draw();
  };
  const off = [store.on("snapshot", draw), store.on("theme", draw)];
  draw();
  return () => {
    off.forEach((f) => f());
    heat.end();
  };
}
