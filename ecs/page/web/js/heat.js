// The heat map of sources by time, on a canvas: hundreds of sources by sixty columns would be too many elements.
import { blank, css, ticks } from "../uplot/phases.js";

const left = 46, foot = 20;
const rowOf = (g) => Math.max(6, Math.min(22, 400 / Math.max(1, g.ids.length)));

// drawHeat draws a grid of Heat, given its measure. A cell without a value stays as the ground; one of 0 has a line.
export function drawHeat(canvas, g, measure) {
  const w = canvas.clientWidth, row = rowOf(g), base = g.ids.length * row, c = blank(canvas, g.ids.length ? base + foot : 0);
  if (!c) return;
  c.textAlign = "right";
  const columns = g.rows[0].length, by = (w - left - 8) / columns, soft = css("--soft"), full = css(measure.colour), ground = css("--grid");
  const every = Math.ceil(13 / row); // as many names as there is room for
  g.ids.forEach((id, i) => {
    const y = i * row;
    c.fillStyle = soft;
    if (i % every === 0) c.fillText(String(id), left - 6, y + row / 2);
    g.rows[i].forEach((v, k) => {
      if (v === null) return;
      c.fillStyle = ground;
      c.fillRect(left + k * by, y + 0.5, by - 0.5, row - 1);
      const shade = measure.shade(v, g.most);
      if (!(shade > 0)) return;
      c.fillStyle = full;
      c.globalAlpha = 0.08 + 0.92 * shade;
      c.fillRect(left + k * by, y + 0.5, by - 0.5, row - 1);
      c.globalAlpha = 1;
    });
  });
  c.fillStyle = soft;
  c.textBaseline = "top";
  const span = columns * g.step;
  for (const ago of ticks(span, Math.max(2, Math.floor(w / 110)))) {
    const x = left + (columns - ago / g.step) * by;
    c.textAlign = ago === 0 ? "right" : x < left + 30 ? "left" : "center";
    c.fillText(ago === 0 ? "now" : `${ago}\u202fs ago`, x, base + 5);
  }
}

// heatAt finds the cell under the pointer: its source, its column and its value.
export function heatAt(canvas, g, e) {
  if (!g.ids.length) return null;
  const box = canvas.getBoundingClientRect(), columns = g.rows[0].length;
  const i = Math.floor((e.clientY - box.top) / rowOf(g)), k = Math.floor(((e.clientX - box.left - left) / (canvas.clientWidth - left - 8)) * columns);
  if (i < 0 || i >= g.ids.length || k < 0 || k >= columns || g.rows[i][k] === null) return null;
  return { id: g.ids[i], at: g.from + k * g.step, v: g.rows[i][k] };
}
