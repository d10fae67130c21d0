// The card of a run's sources: sizes, intervals and banks as small plots, beside those of another run, and as a file.
import { bytes, count, joined, micros, short } from "./logic.js";
import { csv, find, likeness, quantities, readSources, shadeOf, span, steps } from "./distributions.js";
import { lacking } from "./quality.js";
import { button, cell, h, s, table, text, toast } from "./dom.js";
import { told } from "./commands.js";
import { call } from "./api.js";

const columns = [
  { title: "Source", class: "whole" }, { title: "Fragments", class: "n" }, { title: "Missing", class: "n", help: "fragments that were not there when their event was built" },
  { title: "Missing by time", help: "from the first MEP of the run on" },
  { title: "Sizes", help: "of the fragments that came" }, { title: "Intervals", help: "from one fragment to the next" }, { title: "Banks", help: "of the fragments that are containers of banks" },
];
const wide = 220, high = 44;
const write = { size_bytes: (v) => joined(bytes(v)), interval_us: micros, banks: count };

// plot draws a histogram on a logarithmic axis, and that of the other run as a line above it.
function plot({ key, title }, mine, other) {
  const range = span(mine, other);
  if (!range) return h("span", { class: "note" }, "none came");
  const rects = mine ? steps(mine, range).map((b) => s("rect", { class: "bar", x: b.x * wide, width: b.width * wide - 0.3, y: high - b.height * high, height: b.height * high }, s("title", {}, `${write[key](b.from)} to ${write[key](b.to)}: ${count(b.n)}`))) : [];
  const line = other ? [s("path", { class: "other", d: "M" + steps(other, range).flatMap((b) => [`${b.x * wide} ${high}`, `${b.x * wide} ${high - b.height * high}`, `${(b.x + b.width) * wide} ${high - b.height * high}`, `${(b.x + b.width) * wide} ${high}`]).join("L") })] : [];
  const common = likeness(mine, other), median = mine ? `median ${write[key](mine.p50)}` : "none came";
  const words = common === null ? median : `${median}; ${short(100 * common)}\u202f% as before`;
  return h("div", {}, s("svg", { class: "histogram", role: "img", "aria-label": `${title}: ${words}`, width: wide, height: high + 1 }, ...rects, ...line, s("line", { class: "tick", x1: 0, x2: wide, y1: high, y2: high })), h("small", {}, words));
}

// strip draws when fragments were missing, from the first MEP to the last.
function strip(x) {
  if (!x.history.length) return h("span", { class: "note" }, "no MEP");
  const by = wide / x.history.length, seconds = (v) => joined(micros(v * 1e6)), worst = x.history.filter((c) => c.missing).length;
  const says = (c) => `${seconds(c.from)} to ${seconds(c.to)}: ${count(c.missing)} missing in ${count(c.events)} events`;
  const cells = x.history.map((c, i) => s("rect", { class: c.events ? "ran" : "rested", x: i * by, width: Math.max(0.5, by - 0.3), height: 16 }, s("title", {}, says(c))));
  const marks = x.history.flatMap((c, i) => (shadeOf(c) ? [s("rect", { class: "lacks", x: i * by, width: Math.max(0.5, by - 0.3), height: 16, "fill-opacity": shadeOf(c) }, s("title", {}, says(c)))] : []));
  const words = `${seconds(x.history.at(-1).to)}; ${worst ? `missing in ${worst} of ${x.history.length} parts` : "none missing"}`;
  return h("div", {}, s("svg", { class: "histogram", role: "img", "aria-label": `Missing by time: ${words}`, width: wide, height: 17 }, ...cells, ...marks), h("small", {}, words));
}

// distributions is the card; null if the run had no live sources.
export function distributions(r) {
  const all = readSources(r.reportJson);
  if (!all.length) return null;
  const t = table(columns, "Sources of the run"), says = h("p", { class: "note" });
  const number = h("input", { type: "number", min: "1", placeholder: "run", "aria-label": "Number of the run to compare with" });
  const draw = (others, run) => {
    t.body.replaceChildren(...all.map((x) => {
      const other = find(others, x), missing = count(x.missing) + (lacking(x) ? ` (${lacking(x)})` : "");
      return h("tr", {}, [`${x.id} ${x.name}`, count(x.fragments), missing, strip(x), ...quantities.map((q) => plot(q, x[q.key], other && other[q.key]))].map((v, i) => cell(columns[i], v)));
    }));
    text(says, run ? `The line is of run ${run}, drawn to the same height. As before: the part of both histograms that is common.` : "Since the process of the readout unit began the run. Axes are logarithmic; point at a bar to read it.");
  };
  const compare = async () => {
    if (!number.value) return draw([], 0);
    try {
      const others = readSources((await call("GET", `/v1/runs/${Number(number.value)}`)).reportJson);
      if (!others.some((y) => all.some((x) => find([y], x)))) return toast(`Run ${number.value} had none of these sources.`, true);
      draw(others, number.value);
    } catch (e) {
      toast(told(e), true);
    }
  };
  const save = () => {
    const link = h("a", { href: URL.createObjectURL(new Blob([csv(r.number, all)], { type: "text/csv" })), download: `run-${r.number}-sources.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  number.addEventListener("change", compare);
  draw([], 0);
  t.wide.classList.add("tall");
  return h("section", { class: "card full distributions" }, h("div", { class: "head" }, h("h2", {}, "Sources"), h("label", { class: "note" }, "Compare with run ", number), button("Export as CSV", save, { class: "small" })), t.wide, says);
}
