// Drawings of live figures: curves (uPlot), the heat table, the timeline of phases, the histogram.
import { History, bits, brief, bytes, count, joined, lanes, matrix, micros, num, short } from "./logic.js";
import { attr, h, keyed, s, text } from "./dom.js";
import { axis as looks, css, drawPhases, follow, phaseAt } from "../uplot/phases.js";

const utc = (t) => new Date(t * 1000).toISOString().slice(11, 19);

// curve is a card with the latest value, its curve, and a word on the sum. Move over one and all show that moment.
export function curve(o) {
  const value = h("span", { class: "value" }), unit = h("span", { class: "unit" }), sum = h("span", { class: "sum" }), plot = h("div", { class: "plot", role: "img", "aria-label": `${o.title}, the last five minutes as a curve` });
  const root = h("section", { class: "card figure" + (o.class ? " " + o.class : "") }, h("div", { class: "head" }, h("h2", {}, o.title), sum), h("p", { class: "big" }, value, unit), plot);
  const column = History.columns.indexOf(o.column);
  let u = null, data = null, at = null, note = "";
  const show = () => {
    if (!data) return;
    const i = at === null ? data[0].length - 1 : Math.min(at, data[0].length - 1), v = i < 0 ? null : data[1][i];
    const [words, of] = v === null || v === undefined ? ["–", ""] : o.write(v);
    text(value, words);
    text(unit, of);
    text(sum, at === null ? note : `at ${utc(data[0][i])}`);
    root.classList.toggle("past", at !== null);
  };
  const make = () => {
    const axis = { ...looks(11), ticks: { show: false } };
    const colour = () => css(o.colour || "--accent");
    return new uPlot({
      width: plot.clientWidth || 300, height: o.height || 120, legend: { show: false }, padding: [8, 14, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 }, sync: { key: "live" } },
      scales: {
        x: { time: false, range: (u) => { const t = u.data[0], hi = t[t.length - 1]; return [Math.max(hi - 300, Math.min(t[0], hi - 60)), hi]; } },
        y: { range: (u, lo, hi) => [0, hi > 0 ? hi * 1.12 : 1] },
      },
      axes: [
        { ...axis, size: 24, space: 64, incrs: [10, 30, 60, 120], values: (u, splits) => splits.map((v) => (u.valToPos(v, "x") > u.width - 46 - 14 - 20 ? "" : utc(v).slice(0, splits[1] - splits[0] < 60 ? 8 : 5))) },
        { ...axis, size: 46, space: 28, values: (u, splits) => splits.map((v) => (v && !u.data[1].some(Boolean) ? "" : brief(v))) },
      ],
      series: [{}, { stroke: colour, width: 1.75, fill: () => colour() + "22", points: { show: false }, spanGaps: false }],
      hooks: { setCursor: [(u) => { at = u.cursor.left >= 0 && u.cursor.idx !== null ? u.cursor.idx : null; show(); }] },
    }, data, plot);
  };
  const unfollow = follow(plot, () => u, o.height || 120);
  return {
    root,
    update(history, words) {
      note = words || "";
      data = [history.data[0], history.data[column]];
      if (!history.data[0].length) return text(value, "–");
      if (!u) u = make();
      else u.setData(data);
      show();
    },
    recolour: () => u && u.redraw(),
    end() {
      unfollow();
      if (u) u.destroy();
    },
  };
}

// traffic is the table of readout units by builder units, in numbers and in shades.
export function traffic() {
  const head = h("tr"), body = h("tbody"), foot = h("p", { class: "note" });
  const t = h("table", { class: "heat" }, h("caption", { class: "unseen" }, "Traffic from readout units, down, to builder units, across"), h("thead", {}, head), body);
  const root = h("div", {}, h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Traffic matrix" }, t), foot);
  body.addEventListener("pointerover", ({ target: c }) => {
    const v = c.traffic;
    if (v) attr(c, "title", `RU ${v.ru} to BU ${v.bu}: ${joined(bits(v.rate))}, ${joined(bytes(v.bytes))} in this run, ${count(v.resent)} chunks re-sent`);
  });
  let turn = 0;
  return {
    root,
    update(list) {
      if ((list || []).length > 100 && turn++ % 4) return; // every two seconds: a thousand cells twice a second keep a browser busy (design note 028)
      const m = matrix(list);
      root.classList.toggle("empty", !m.rus.length);
      if (!m.rus.length) {
        head.replaceChildren();
        head.keyedChildren = null;
        keyed(body, [], () => "");
        return text(foot, "Nothing is being sent. A run fills this table.");
      }
      const [, unit] = bits(m.most), by = { Tb: 1e12, Gb: 1e9, Mb: 1e6, kb: 1e3 }[unit.slice(0, 2)] || 1;
      const dense = m.bus.length > 10; // numbers of two digits, that a whole partition may be seen at once
      t.classList.toggle("dense", dense);
      keyed(head, ["corner", ...m.bus], (b) => `${b} ${dense}`, (b) => (b === "corner" ? h("td", {}, dense ? "to BU" : "") : h("th", { scope: "col" }, dense ? String(b) : `BU ${b}`)));
      keyed(body, m.rus, (ru) => ru, (ru) => h("tr", {}, h("th", { scope: "row" }, `RU ${ru}`)), (tr, ru) => {
        m.bus.forEach((bu, i) => {
          const c = tr.children[i + 1] || tr.appendChild(h("td"));
          const v = m.at(ru, bu), share = v && m.most ? v.rate / m.most : 0;
          text(c, v ? (v.rate ? (dense ? Number(((v.rate * 8) / by).toPrecision(2)) : short((v.rate * 8) / by)) : "0") : "");
          attr(c, "data-shade", Math.round(share * 10));
          attr(c, "class", v && v.resent ? "resent" : null);
          c.traffic = v && { ru, bu, ...v };
        });
        while (tr.children.length > m.bus.length + 1) tr.lastChild.remove();
      });
      text(foot, `In ${unit}; ${joined(bits(m.sum))} in all. A ${dense ? "line below" : "dot"} marks a pair with re-sent chunks.`);
    },
  };
}

// phases is the timeline: a lane for each readout unit.
export function phases() {
  const canvas = h("canvas", { class: "phases", role: "img" }), says = h("p", { class: "note says" }), root = h("div", { class: "phasebox" }, canvas, says);
  let l = lanes([]);
  const idle = () => (l.rus.length ? "Full colour: it sends, in the colour of its builder unit. Pale: it waits for the others. A mark: it was last, and held the phase." : "No phases now. The steps of the readout units are shown while a run goes on.");
  const holds = (p) => p.last && l.held.has(p.phase) && l.held.get(p.phase).ru === p.ru;
  const draw = () => drawPhases(canvas, l, holds);
  canvas.addEventListener("pointermove", (e) => {
    const p = phaseAt(canvas, l, e);
    if (!p) return text(says, idle());
    const holder = l.held.get(p.phase), held = holder ? ` RU ${holder.ru} held this phase, by ${micros(holder.by)}.` : "";
    text(says, (p.bu < 0 ? `RU ${p.ru}, phase ${p.phase}: nothing to send, waited ${micros(p.released - p.begin)}.` : `RU ${p.ru} to BU ${p.bu}, phase ${p.phase}, MEP ${p.mep}: sent in ${micros(p.sent - p.begin)}, waited ${micros(p.released - p.sent)}.`) + held);
  });
  canvas.addEventListener("pointerleave", () => text(says, idle()));
  const seen = new ResizeObserver(draw);
  seen.observe(root);
  return {
    root,
    update(timeline) {
      if (!canvas.matches(":hover")) l = lanes(timeline); // it stands still under the pointer, to be read
      attr(canvas, "aria-label", l.rus.length ? `Timeline of ${l.rus.length} readout units over ${micros(l.span)}; the table beside it says who held the phases` : "Timeline, empty");
      if (!says.textContent || !canvas.matches(":hover")) text(says, idle());
      draw();
    },
    recolour: draw,
    end: () => seen.disconnect(),
  };
}

// histogram of latencies, on a logarithmic axis.
export function histogram() {
  const drawing = s("svg", { class: "histogram", role: "img", width: "100%", height: "170" });
  const figures = h("dl", { class: "figures" }), root = h("div", {}, drawing, figures);
  let shown = "";
  return {
    root,
    update(latency) {
      const now = JSON.stringify(latency || {});
      if (now === shown) return;
      shown = now;
      const bars = ((latency && latency.bars) || []).map((b) => ({ from: num(b.fromUs), to: num(b.toUs), n: num(b.count) })).filter((b) => b.to > b.from && b.n > 0);
      root.classList.toggle("empty", !bars.length);
      if (!bars.length) {
        drawing.replaceChildren();
        figures.replaceChildren(h("p", { class: "note" }, "No MEP was built. A run fills this histogram."));
        return;
      }
      const log = (v) => Math.log10(Math.max(v, 0.5)), lo = log(bars[0].from), hi = log(bars[bars.length - 1].to), most = Math.max(...bars.map((b) => b.n));
      const x = (v) => 2 + 96 * ((log(v) - lo) / (hi - lo || 1)), top = 18, base = 146;
      const out = bars.map((b) => {
        const height = Math.max(1, ((base - top) * b.n) / most), from = x(b.from);
        return s("rect", { class: "bar", x: `${from}%`, width: `${Math.max(0.3, x(b.to) - from - 0.15)}%`, y: base - height, height }, s("title", {}, `${micros(b.from)} to ${micros(b.to)}: ${count(b.n)} MEPs`));
      });
      for (let e = Math.ceil(lo - 1); e <= hi; e++)
        for (const k of hi - lo > 2 ? [1] : [1, 2, 5]) {
          const v = k * 10 ** e;
          if (log(v) < lo || log(v) > hi) continue;
          out.push(s("line", { class: "tick", x1: `${x(v)}%`, x2: `${x(v)}%`, y1: base, y2: base + 4 }), s("text", { class: "label", x: `${x(v)}%`, y: base + 17, "text-anchor": x(v) < 5 ? "start" : x(v) > 93 ? "end" : "middle" }, micros(v).replace(/\.0+(?=\D)/, "")));
        }
      let right = -100;
      const marks = [["p50", latency.p50Us], ["p99", latency.p99Us], ["p99.9", latency.p999Us]];
      for (const [name, us] of marks) {
        const at = x(num(us));
        if (num(us) <= 0 || log(num(us)) < lo || log(num(us)) > hi) continue;
        out.push(s("line", { class: "mark", x1: `${at}%`, x2: `${at}%`, y1: top - 4, y2: base }));
        if (at - right > 9) out.push(s("text", { class: "label strong", x: `${at}%`, y: 11, "text-anchor": at > 93 ? "end" : at < 5 ? "start" : "middle" }, name));
        right = Math.max(right, at);
      }
      out.push(s("line", { class: "tick", x1: "0", x2: "100%", y1: base, y2: base }));
      drawing.setAttribute("aria-label", `Latency from token to complete MEP: median ${micros(latency.p50Us)}, 99 % below ${micros(latency.p99Us)}, at most ${micros(latency.maxUs)}`);
      drawing.replaceChildren(...out);
      figures.replaceChildren(...[...marks, ["most", latency.maxUs]].map(([name, us]) => h("div", {}, h("dt", {}, name), h("dd", {}, micros(us)))));
    },
  };
}
