"use strict";
// Draws the figures it is given: what there is to draw, and over what, was decided when the report was written.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const light = ["#0072b2", "#d55e00", "#009e73", "#c04a93", "#b58900", "#6d4fb0", "#19a5b5", "#6b6b6b"];
  const dark = ["#4aa8e0", "#f08a4b", "#2fc79a", "#e583c1", "#e6b422", "#a98bf0", "#7fe0ea", "#b0b0b0"];
  const night = matchMedia("(prefers-color-scheme: dark)");
  const palette = () => (night.matches ? dark : light);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const el = (tag, cls, text) => {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const short = (v) => {
    if (v === 0) return "0";
    const digits = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(v))), 0), 6);
    const s = v.toFixed(digits);
    return s.includes(".") ? s.replace(/\.?0+$/, "") : s;
  };
  const told = (p) => short(p.median) + (p.min < p.max ? ` (${short(p.min)}–${short(p.max)})` : "");
  // A curve has the same colour in all figures of its section.
  const colours = (names, name) => {
    if (!names.includes(name)) names.push(name);
    const i = names.indexOf(name);
    return { colour: palette()[i % light.length], dashed: i >= light.length };
  };
  const redraw = []; // what depends on colours

  const caption = (fig, f) => {
    const c = el("figcaption");
    c.append(el("strong", "", f.title), f.note || "");
    fig.append(c);
  };

  const bars = (fig, f) => {
    const grid = el("div", "bars");
    const points = f.curves[0].points;
    const most = Math.max(...points.map((p) => p.max)) || 1;
    const percent = (v) => (100 * v) / most + "%";
    points.forEach((p) => {
      const tick = f.x.ticks.find((t) => t.at === p.x);
      const bar = el("div", "bar"), full = el("div"), spread = el("s"), value = el("div", "value", short(p.median));
      full.style.width = percent(p.median);
      redraw.push(() => (full.style.background = palette()[0]));
      bar.append(full);
      if (p.min < p.max) {
        spread.style.left = percent(p.min);
        spread.style.width = percent(p.max - p.min);
        bar.append(spread);
        value.append(el("small", "", `${short(p.min)}–${short(p.max)}`));
      }
      const row = el("div", "row");
      row.append(el("div", "name", tick.label), bar, value);
      grid.append(row);
    });
    fig.append(grid, el("div", "axis", f.y.label));
  };

  // Round numbers on a logarithmic axis: 1, 2, 5, 10 …, or powers of ten alone where there are many.
  const round = (lo, hi) => {
    const out = [];
    for (let e = Math.floor(Math.log10(lo)); 10 ** e <= hi; e++)
      for (const k of hi / lo > 300 ? [1] : [1, 2, 5]) {
        const v = k * 10 ** e;
        if (v >= lo && v <= hi) out.push(v);
      }
    return out;
  };

  const whiskers = (curves, at) => ({
    hooks: {
      draw: (u) => {
        const c = u.ctx, px = devicePixelRatio;
        c.save();
        c.lineWidth = 1.5 * px;
        curves.forEach((curve, i) => {
          c.strokeStyle = at(i).colour;
          curve.points.forEach((p) => {
            if (p.min === p.max) return;
            const x = u.valToPos(p.x, "x", true), lo = u.valToPos(p.min, "y", true), hi = u.valToPos(p.max, "y", true), w = 4 * px;
            c.beginPath();
            c.moveTo(x, lo); c.lineTo(x, hi);
            c.moveTo(x - w, lo); c.lineTo(x + w, lo);
            c.moveTo(x - w, hi); c.lineTo(x + w, hi);
            c.stroke();
          });
        });
        c.restore();
      },
    },
  });

  const lines = (fig, f, names) => {
    const xs = f.x.ticks.map((t) => t.at);
    const at = (i) => colours(names, f.curves[i].name);
    const rows = f.curves.map((c) => xs.map((x) => c.points.find((p) => p.x === x) || null));
    const all = f.curves.flatMap((c) => c.points);
    const room = (xs[xs.length - 1] - xs[0]) * 0.06 || 0.5;
    const least = Math.min(...all.map((p) => p.min)), most = Math.max(...all.map((p) => p.max));
    const plot = el("div"), legend = el("div", "legend");
    fig.append(plot, legend);
    const axis = { stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20 };
    const entries = f.curves.map((c, i) => {
      const e = el("span"), mark = el("i", at(i).dashed ? "dash" : ""), value = el("b");
      redraw.push(() => (mark.style.borderColor = at(i).colour));
      e.append(mark, c.name, value);
      return { e, value };
    });
    const where = el("span", "at", f.x.label ? "\u00a0" : "");
    const show = (i) => {
      where.textContent = i == null ? "\u00a0" : `${f.x.label ? f.x.label + ": " : ""}${f.x.ticks[i].label}`;
      entries.forEach((o, c) => (o.value.textContent = i != null && rows[c][i] ? told(rows[c][i]) : ""));
    };
    if (f.curves.length > 1 || f.curves[0].name !== f.title) legend.append(...entries.map((o) => o.e));
    legend.append(where);
    const u = new uPlot({
      width: Math.max(plot.clientWidth, 240), height: 300, legend: { show: false }, padding: [12, 12, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 9 } },
      scales: {
        x: { time: false, range: () => [xs[0] - room, xs[xs.length - 1] + room] },
        y: f.y.log ? { distr: 3, range: () => [least / 1.4, most * 1.4] } : { range: () => [0, most * 1.08 || 1] },
      },
      axes: [
        {
          ...axis, label: f.x.label || undefined, size: 32,
          // The values there are, as far as their names do not touch.
          splits: (u) => {
            let last = -1e9;
            return xs.filter((x, i) => {
              const p = u.valToPos(x, "x"), half = 3.6 * f.x.ticks[i].label.length + 4;
              if (p - half < last) return false;
              last = p + half;
              return true;
            });
          },
          values: (u, splits) => splits.map((s) => f.x.ticks[xs.indexOf(s)].label),
        },
        {
          ...axis, label: f.y.label, size: 58,
          ...(f.y.log && { splits: (u, i, lo, hi) => round(lo, hi), filter: (u, splits) => splits }),
          values: (u, splits) => splits.map(short),
        },
      ],
      series: [{}, ...f.curves.map((c, i) => ({ stroke: () => at(i).colour, width: 2, dash: at(i).dashed ? [8, 5] : undefined, spanGaps: true, points: { show: true, size: 7, fill: () => at(i).colour } }))],
      plugins: [whiskers(f.curves, at)],
      hooks: { setCursor: [(u) => show(u.cursor.left >= 0 ? u.cursor.idx : null)] },
    }, [xs, ...rows.map((r) => r.map((p) => (p ? p.median : null)))], plot);
    new ResizeObserver(() => { if (plot.clientWidth && plot.clientWidth !== u.width) u.setSize({ width: plot.clientWidth, height: 300 }); }).observe(plot);
    redraw.push(() => u.redraw());
  };

  document.querySelectorAll("[data-section]").forEach((box) => {
    const names = [];
    data.sections[box.dataset.section].figures.forEach((f) => {
      const fig = el("figure");
      box.append(fig);
      caption(fig, f);
      f.bars ? bars(fig, f) : lines(fig, f, names);
    });
  });

  // Phases: a row for each readout unit.
  const phases = (fig, t) => {
    const canvas = el("canvas", "phases"), line = el("div", "legend");
    const says = el("span", "at", "\u00a0");
    line.append(says);
    fig.append(canvas, line);
    const row = Math.max(14, Math.min(26, 320 / t.rus)), left = 46, foot = 34;
    const unit = t.span > 2000 ? { name: "ms", by: 1000 } : { name: "µs", by: 1 };
    const draw = () => {
      const px = devicePixelRatio, w = canvas.clientWidth, h = t.rus * row + foot, c = canvas.getContext("2d");
      canvas.style.height = h + "px";
      canvas.width = w * px;
      canvas.height = h * px;
      c.scale(px, px);
      c.font = "12px system-ui, sans-serif";
      c.textBaseline = "middle";
      const x = (us) => left + (us / (t.span || 1)) * (w - left - 8);
      c.fillStyle = css("--soft");
      c.textAlign = "right";
      for (let r = 0; r < t.rus; r++) if (row >= 14) c.fillText("RU " + r, left - 6, (r + 0.5) * row);
      t.phases.forEach(([ru, begin, sent, end, bu]) => {
        c.fillStyle = bu < 0 ? css("--soft") : palette()[bu % light.length];
        c.globalAlpha = 0.25;
        c.fillRect(x(sent), ru * row + 2, Math.max(0, x(end) - x(sent)), row - 4);
        c.globalAlpha = 1;
        c.fillRect(x(begin), ru * row + 2, Math.max(1, x(sent) - x(begin) - 0.5), row - 4);
      });
      c.strokeStyle = css("--line");
      c.fillStyle = css("--soft");
      c.textAlign = "center";
      c.textBaseline = "top";
      if (!(t.span > 0)) return; // no time that an axis could show
      const steps = Math.max(2, Math.min(8, Math.floor(w / 110)));
      const rough = t.span / steps, ten = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((k) => k * ten).find((s) => s >= rough);
      for (let us = 0; us <= t.span; us += step) {
        c.beginPath();
        c.moveTo(x(us), t.rus * row);
        c.lineTo(x(us), t.rus * row + 4);
        c.stroke();
        c.textAlign = x(us) > w - 30 ? "right" : "center"; // the last would not fit
        c.fillText(short(us / unit.by), Math.min(x(us), w - 2), t.rus * row + 6);
      }
      c.textAlign = "right";
      c.fillText(`time (${unit.name})`, w - 8, t.rus * row + 20);
    };
    canvas.addEventListener("pointermove", (e) => {
      const box = canvas.getBoundingClientRect();
      const us = ((e.clientX - box.left - left) / (canvas.clientWidth - left - 8)) * t.span, ru = Math.floor((e.clientY - box.top) / row);
      const p = t.phases.find((p) => p[0] === ru && p[1] <= us && us <= p[3]);
      const lasted = (from, to) => `${short((to - from) / unit.by)} ${unit.name}`;
      if (!p) says.textContent = "\u00a0";
      else if (p[4] < 0) says.textContent = `RU ${p[0]}, nothing to send: waited ${lasted(p[1], p[3])}`;
      else says.textContent = `RU ${p[0]} to BU ${p[4]}, MEP ${p[5]}: sent in ${lasted(p[1], p[2])}, waited ${lasted(p[2], p[3])}`;
    });
    new ResizeObserver(draw).observe(fig);
    redraw.push(draw);
  };
  const box = document.getElementById("timelines");
  (data.timelines || []).forEach((t) => {
    const fig = el("figure", "full");
    box.append(fig);
    caption(fig, { title: t.title });
    phases(fig, t);
  });

  const again = () => redraw.forEach((f) => f());
  again();
  night.addEventListener("change", again);
})();
