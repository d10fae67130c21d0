// Counters of a node, read up to a thousand times a second: curves of the newest 2048 samples (docs/ctl.md#samples).
import { bits, brief, count, joined, nodesOf } from "./logic.js";
import { h, keyed, text } from "./dom.js";
import { store } from "./api.js";
import { looking } from "./stream.js";
import { Samples, asked } from "./samples.js";
import { axis as looks, follow, palette } from "../uplot/phases.js";

const choice = { node: "", interval: 1000, each: true, counter: "link.bytes_sent" }; // as it was left
const height = 320;

export function samples(root) {
  const node = h("select", { id: "sample-node" }), every = h("select", { id: "sample-every" }, [[1000, "1 ms"], [10000, "10 ms"], [100000, "100 ms"], [1000000, "1 s"], [10000000, "10 s"]].map(([v, words]) => h("option", { value: v }, words)));
  const which = h("select", { id: "sample-counter" }), each = h("input", { id: "sample-each", type: "checkbox" });
  const sum = h("p", { class: "note" }), state = h("p", { class: "note", role: "status" }), plot = h("div", { class: "plot", role: "img", "aria-label": "The samples as curves" }), names = h("dl", { class: "figures" });
  root.append(
    h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Samples"), sum),
    h("form", { class: "filters", on: { submit: (e) => e.preventDefault() } }, h("label", { for: "sample-node" }, "Node"), node, h("label", { for: "sample-every" }, "Every"), every, h("label", { for: "sample-counter" }, "Counter"), which, each, h("label", { for: "sample-each" }, "each link and segment")),
    state, h("section", { class: "card full" }, plot, names),
  );
  every.value = String(choice.interval);
  each.checked = choice.each;
  let data = new Samples(), u = null, drawn = "";
  const per = (c) => (c.level ? c.unit : `${c.unit === "bytes" ? "bits" : c.unit} a second`.trim()); // of the axis
  const rate = (c, v) => (c.level ? count(Math.round(v)) : c.unit === "bytes" ? joined(bits(v)) : `${brief(v)} a second`);
  const draw = () => {
    const list = data.of(choice.counter);
    text(sum, data.at.length ? `${count(data.at.length)} samples shown${data.late ? `; not taken when due: ${count(data.late)}` : ""}${data.missed ? `; thrown away unread: ${count(data.missed)}` : ""}.` : "");
    keyed(which, data.counters, (c) => c, (c) => h("option", { value: c }, c));
    if (data.counters.includes(choice.counter)) which.value = choice.counter;
    const shape = list.map((c) => c.name).join(" ");
    if (u && shape !== drawn) {
      u.destroy();
      u = null;
    }
    drawn = shape;
    const colour = (i) => () => palette(i);
    keyed(names, list, (c) => c.name, (c) => h("div", {}, h("dt", {}, c.name), h("dd")), (e, c, i) => {
      e.firstChild.style.setProperty("border-bottom", `3px solid ${palette(i)}`);
      const mean = c.data.reduce((a, b) => a + b, 0) / (c.data.length || 1);
      text(e.lastChild, c.data.length ? `${rate(c, mean)} on average, ${rate(c, Math.max(...c.data))} at most` : "–");
    });
    if (!list.length || !data.at.length) return;
    const now = data.at[data.at.length - 1], all = [data.at.map((t) => t - now), ...list.map((c) => c.data)];
    if (u) return u.setData(all);
    const axis = { ...looks(11), ticks: { show: false } };
    u = new uPlot({
      width: plot.clientWidth || 600, height, legend: { show: false }, scales: { x: { time: false }, y: { range: (u, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1] } },
      axes: [{ ...axis, size: 24, space: 72, values: (u, splits) => splits.map((v) => `${Number(v.toFixed(3))}\u202fs`) }, { ...axis, size: 56, label: per(list[0]), labelSize: 18, labelFont: axis.font, values: (u, splits) => splits.map((v) => brief(list[0].unit === "bytes" && !list[0].level ? v * 8 : v)) }],
      series: [{}, ...list.map((c, i) => ({ stroke: colour(i), width: 1.25, points: { show: false } }))],
    }, all, plot);
  };
  const unfollow = follow(plot, () => u, height);
  // The stream ends with the run.
  const ask = () => {
    const running = store.status && store.status.root && store.status.root.state === "Running";
    if (choice.node && running) return asked(choice);
    text(state, "No run is on. Counters are read while one goes on.");
    return "";
  };
  const take = (m) => {
    text(state, "");
    data.take(m);
    draw();
  };
  const { look, end } = looking({ ask, take, tell: (why) => text(state, why) });
  const anew = () => {
    Object.assign(choice, { node: node.value, interval: Number(every.value), each: each.checked });
    data = new Samples();
    look();
    draw();
  };
  node.addEventListener("change", anew);
  every.addEventListener("change", anew);
  each.addEventListener("change", anew);
  which.addEventListener("change", () => {
    choice.counter = which.value;
    draw();
  });
  const list = () => {
    const all = nodesOf(store.status).map((c) => c.name).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    keyed(node, all, (n) => n, (n) => h("option", { value: n }, n));
    if (!all.includes(choice.node)) choice.node = all[0] || "";
    node.value = choice.node;
  };
  const off = store.on("status", list);
  list();
  look();
  draw();
  return () => {
    end();
    off();
    unfollow();
    if (u) u.destroy();
  };
}
