// Counters of a node, read up to a thousand times a second: curves of the newest 2048 samples (docs/ctl.md#samples).
import { bits, brief, count, failure, joined, nodesOf } from "./logic.js";
import { h, keyed, text } from "./dom.js";
import { call, store } from "./api.js";
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
  let data = new Samples(), u = null, drawn = "", stream = null, again = 0, gone = false;
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
      axes: [{ ...axis, size: 24, space: 72, values: (u, splits) => splits.map((v) => `${Number(v.toFixed(3))}\u202fs`) }, { ...axis, size: 56, values: (u, splits) => splits.map((v) => brief(list[0].unit === "bytes" ? v * 8 : v)) }],
      series: [{}, ...list.map((c, i) => ({ stroke: colour(i), width: 1.25, points: { show: false } }))],
    }, all, plot);
  };
  const unfollow = follow(plot, () => u, height);
  const close = () => {
    clearTimeout(again);
    if (stream) stream.close();
    stream = null;
  };
  // look opens the stream. It is open while this screen is there and the tab can be seen, and ends with the run.
  const look = () => {
    close();
    if (gone || document.hidden || !store.live) return;
    const running = store.status && store.status.root && store.status.root.state === "Running";
    if (!choice.node || !running) {
      text(state, "No run is on. Counters are read while one goes on.");
      again = setTimeout(look, 1000);
      return;
    }
    const mine = new EventSource(asked(choice));
    stream = mine;
    mine.onmessage = (m) => {
      text(state, "");
      try {
        const o = JSON.parse(m.data);
        data.take(o.result || o);
      } catch {
        return; // a torn line: the next one is whole
      }
      draw();
    };
    mine.onerror = async () => {
      if (stream !== mine) return;
      close();
      again = setTimeout(look, 2000);
      try {
        await call("GET", "/v1/status"); // whether the control is there at all
      } catch (e) {
        text(state, failure(null, e.status)[0]);
      }
    };
  };
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
  const off = [store.on("status", list), store.on("connection", look)];
  document.addEventListener("visibilitychange", look);
  list();
  look();
  draw();
  return () => {
    gone = true;
    close();
    off.forEach((f) => f());
    document.removeEventListener("visibilitychange", look);
    unfollow();
    if (u) u.destroy();
  };
}
