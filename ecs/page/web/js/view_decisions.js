// Decisions on events: how many of which kind, where their time goes, what the filter of each builder unit does.
import { count, joined, micros, rate, short } from "./logic.js";
import { Pace, decided, filters, parts } from "./decisions.js";
import { attr, cell, h, keyed, s, table, text } from "./dom.js";

const filterColumns = [
  { title: "Node" }, { title: "Judged", class: "n" }, { title: "Accepted", class: "n" }, { title: "Rejected", class: "n" }, { title: "Timed out", class: "n", help: "the filter did not answer in time; the event passed" },
  { title: "Failed", class: "n", help: "the filter could not judge the event; it passed" }, { title: "Mean", class: "n", help: "in the filter, for an event" }, { title: "Longest", class: "n" },
  { title: "Held", class: "n", help: "how long built events waited for a place before the filter, in sum" }, { title: "Stuck", class: "n", help: "workers beyond their deadline now" },
];
const timeColumns = [{ title: "Part" }, { title: "p50", class: "n" }, { title: "p99", class: "n" }, { title: "p99.9", class: "n" }, { title: "Most", class: "n" }, { title: "How often", class: "bars" }];

const share = (n, of) => (of ? `${count(n)} (${short((100 * n) / of)}\u202f%)` : count(n));

// strip draws the bars of one part; all parts have one axis.
function strip(svg, row, ticks) {
  const percent = (v) => `${(100 * v).toFixed(2)}%`;
  svg.replaceChildren(...ticks.map((t) => s("line", { class: "tick", x1: percent(t.x), x2: percent(t.x), y1: 0, y2: 28 })),
    ...row.bars.map((b) => s("rect", { class: "bar", x: percent(b.x), width: percent(Math.max(0.003, b.w - 0.001)), y: 28 - Math.max(1, 26 * b.share), height: Math.max(1, 26 * b.share) }, s("title", {}, `${micros(b.from)} to ${micros(b.to)}: ${count(b.n)} events`))));
}

export function decisions() {
  const facts = h("dl", { class: "facts" }), note = h("p", { class: "note" }), times = table(timeColumns, "Where the time of decisions goes"), axis = s("svg", { class: "strip axis", width: "100%", height: "18", "aria-hidden": "true" });
  const judged = table(filterColumns, "Filters"), timesNote = h("p", { class: "note" }, "Building, judging and ordering are of events that a result decided; those without one have no parts. The filter's times are of all events."), timesBox = h("div", {}, h("h3", {}, "Where the time goes"), times.wide, timesNote), judgedBox = h("div", { class: "filterbox" }, h("h3", {}, "Filters of the builder units"), judged.wide);
  times.wide.classList.add("times-table");
  judged.wide.classList.add("filter-table");
  times.table.append(h("tfoot", {}, h("tr", {}, Array.from({ length: 5 }, () => h("td")), h("td", { class: "bars" }, axis))));
  const title = h("h2", {}, "Decisions"), root = h("section", { class: "card full decisions", hidden: true }, h("div", { class: "head" }, title, note), facts, timesBox, judgedBox);
  const pace = new Pace();
  const pairs = (list) => keyed(facts, list, ([k]) => k, ([k, , help]) => h("div", { title: help }, h("dt", {}, k), h("dd")), (e, [, v, , odd]) => {
    text(e.lastChild, v);
    e.lastChild.classList.toggle("odd", Boolean(odd));
  });
  const told = (d) => {
    if (!d) return pairs([]);
    const now = pace.add(d), all = d.decisions;
    pairs([
      ["Decisions", count(all)],
      ["Rate", d.silent || now === null ? "–" : joined(rate(now))],
      ["Accepted", share(d.of.accepted, all)],
      ["Rejected", share(d.of.rejected, all)],
      ["Timed out", share(d.of.timed_out, all), "events that passed since there was no verdict in time", d.of.timed_out],
      ["Failed", share(d.of.failed, all), "events that passed since no filter could judge them", d.of.failed],
      ["Without result", count(d.without), "decided since the time-out was over, later events needed the place, or the run ended", d.without],
      ["Waiting", d.depth ? `${count(d.pending)} of ${count(d.depth)}` : count(d.pending), "events that wait for their decision, of those that may"],
      ["Late results", count(d.late), "their event had its decision; they changed nothing", d.late],
      ["Doubled results", count(d.doubled), "their event had a result; they changed nothing", d.doubled],
      ["Impossible results", count(d.impossible), "of no event, no builder unit, or of broken bytes; they changed nothing", d.impossible],
    ]);
  };
  return {
    root,
    update(snapshot) {
      const d = decided(snapshot), rows = filters(snapshot), p = parts(snapshot);
      root.hidden = !d && !rows.length;
      text(title, d ? "Decisions" : "Filters");
      text(note, d ? `by ${d.node}${d.first ? `, which came back and began with event ${count(d.first)}` : ""}${d.silent ? `; it has not reported for ${short(d.silent)}\u202fs, and these are its last figures` : ""}` : "There is no decision unit: each output has what its filter passes.");
      told(d);
      timesBox.hidden = !p.rows.length;
      timesNote.hidden = !d;
      keyed(times.body, p.rows, (r) => r.name, (r) => {
        const tr = h("tr", { title: r.what }, timeColumns.map((c) => cell(c)));
        tr.drawing = s("svg", { class: "strip", width: "100%", height: "28", role: "img" });
        tr.children[5].append(tr.drawing);
        text(tr.children[0], r.title);
        tr.children[0].classList.toggle("deeper", Boolean(r.deeper));
        return tr;
      }, (tr, r) => {
        r.times.forEach((t, i) => text(tr.children[i + 1], `${t.more ? "≥ " : ""}${micros(t.us)}`));
        attr(tr.drawing, "aria-label", `${r.title}, ${r.what}: half within ${micros(r.times[0].us)}, 99 % within ${micros(r.times[1].us)}`);
        strip(tr.drawing, r, p.ticks);
      });
      const every = Math.ceil(p.ticks.length / 6);
      axis.replaceChildren(...p.ticks.filter((_, i) => i % every === 0).map((t) => s("text", { class: "label", x: `${100 * t.x}%`, y: 13, "text-anchor": t.x < 0.05 ? "start" : t.x > 0.95 ? "end" : "middle" }, micros(t.us).replace(/\.0+(?=\D)/, ""))));
      judgedBox.hidden = !rows.length;
      keyed(judged.body, rows, (r) => r.node, () => h("tr", {}, filterColumns.map((c) => cell(c))), (tr, r) => {
        const td = tr.children;
        text(td[0], r.node + (r.silent ? " (silent)" : ""));
        [count(r.judged), share(r.of.accepted, r.judged), share(r.of.rejected, r.judged), count(r.of.timed_out), count(r.of.failed), r.mean === null ? "–" : micros(r.mean), r.judged ? micros(r.longest) : "–", micros(r.held), count(r.stuck)].forEach((v, i) => text(td[i + 1], v));
        td[4].classList.toggle("odd", r.of.timed_out > 0);
        td[5].classList.toggle("odd", r.of.failed > 0);
        td[9].classList.toggle("odd", r.stuck > 0);
      });
    },
  };
}
