// The timeline of phases, a lane for each readout unit, and the colours of all charts: the page of the run control and
// the report of a sweep draw with this. It loads nothing, so that a report can have it within itself.

const light = ["#0072b2", "#d55e00", "#009e73", "#c04a93", "#b58900", "#6d4fb0", "#19a5b5", "#6b6b6b"];
const dark = ["#4aa8e0", "#f08a4b", "#2fc79a", "#e583c1", "#e6b422", "#a98bf0", "#7fe0ea", "#b0b0b0"];

export const colours = light.length;
export const night = () => document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
export const palette = (i) => (night() ? dark : light)[i % colours];
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// axis is how those of uPlot look.
export const axis = (size) => ({ stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 }, font: `${size}px system-ui, sans-serif` });

// follow keeps a chart of uPlot as wide as its box. It returns what ends that.
export function follow(box, chart, height) {
  const seen = new ResizeObserver(() => {
    const u = chart();
    if (u && box.clientWidth && box.clientWidth !== u.width) u.setSize({ width: box.clientWidth, height });
  });
  seen.observe(box);
  return () => seen.disconnect();
}

// ticks are round numbers for an axis from 0, at most about so many.
export function ticks(to, most) {
  if (!(to > 0)) return [0];
  const rough = to / Math.max(1, most), ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * ten).find((s) => s >= rough * 0.999);
  const out = [];
  for (let v = 0; v <= to * 1.0001; v += step) out.push(v);
  return out;
}

// blank makes a canvas as wide as its box and so high, in pixels of the page, sharp on any screen and empty. It returns
// what draws there, or null where there is nothing to draw on.
export function blank(canvas, height) {
  const px = devicePixelRatio || 1, w = canvas.clientWidth, c = canvas.getContext("2d");
  canvas.style.setProperty("height", height + "px");
  if (!w || !height) return null;
  if (canvas.width !== Math.round(w * px) || canvas.height !== Math.round(height * px)) {
    canvas.width = Math.round(w * px);
    canvas.height = Math.round(height * px);
  }
  c.setTransform(px, 0, 0, px, 0, 0);
  c.clearRect(0, 0, w, height);
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  return c;
}

const left = 46, foot = 32;
const rowOf = (l) => Math.max(12, Math.min(26, 300 / Math.max(1, l.rus.length)));
const scale = (canvas, l) => (canvas.clientWidth - left - 8) / (l.span || 1);

// drawPhases draws l: rus, their names in the order of the lanes; steps of {ru, bu, begin, sent, released} in µs from 0,
// bu below 0 where there is nothing to send; span in µs; and marks(step) of those that held their phase.
export function drawPhases(canvas, l, marks = () => false) {
  const w = canvas.clientWidth, row = rowOf(l), base = l.rus.length * row, c = blank(canvas, l.rus.length ? base + foot : 0);
  if (!c) return;
  const by = scale(canvas, l), x = (us) => left + us * by;
  const lane = new Map(l.rus.map((ru, i) => [ru, i * row])), soft = css("--soft");
  c.fillStyle = soft;
  c.textAlign = "right";
  for (const [ru, y] of lane) c.fillText(`RU ${ru}`, left - 6, y + row / 2);
  for (const p of l.steps) {
    const y = lane.get(p.ru);
    c.fillStyle = p.bu < 0 ? soft : palette(p.bu);
    c.globalAlpha = 0.24;
    c.fillRect(x(p.sent), y + 2, Math.max(0, x(p.released) - x(p.sent)), row - 4);
    c.globalAlpha = 1;
    if (p.bu >= 0) c.fillRect(x(p.begin), y + 2, Math.max(1, x(p.sent) - x(p.begin) - 0.5), row - 4);
    if (!marks(p)) continue;
    c.fillStyle = css("--ink");
    c.beginPath();
    c.moveTo(x(p.sent) - 4, y + 1);
    c.lineTo(x(p.sent) + 4, y + 1);
    c.lineTo(x(p.sent), y + 7);
    c.fill();
  }
  if (!(l.span > 0)) return; // no time that an axis could show
  const big = l.span > 2000;
  c.strokeStyle = css("--line");
  c.fillStyle = soft;
  c.textBaseline = "top";
  for (const us of ticks(l.span, Math.max(2, Math.floor(w / 90)))) {
    c.beginPath();
    c.moveTo(x(us), base);
    c.lineTo(x(us), base + 4);
    c.stroke();
    c.textAlign = x(us) > w - 24 ? "right" : "center"; // the last would not fit
    c.fillText(String(Number((us / (big ? 1000 : 1)).toPrecision(3))), Math.min(x(us), w - 2), base + 6);
  }
  c.textAlign = "right";
  c.fillText(`time in ${big ? "ms" : "µs"}`, w - 8, base + 18);
}

// phaseAt finds the step under the pointer.
export function phaseAt(canvas, l, e) {
  const box = canvas.getBoundingClientRect(), us = (e.clientX - box.left - left) / scale(canvas, l);
  const ru = l.rus[Math.floor((e.clientY - box.top) / rowOf(l))];
  return l.steps.find((p) => p.ru === ru && p.begin <= us && us <= p.released);
}
