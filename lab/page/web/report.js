"use strict";
// Draws the figures it is given: what there is to draw, and over what, was decided when the report was written.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
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
  const look = (names, name) => {
    if (!names.includes(name)) names.push(name);
    const i = names.indexOf(name);
    return { colour: palette(i), dashed: i >= colours };
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
    const most = Math.max(...points.map((p) => p.max)) || 1, least = Math.min(...points.map((p) => p.min)) / 2;
    const percent = (v) => 100 * (f.y.log ? Math.log(v / least) / Math.log(most / least) : v / most) + "%";
    points.forEach((p) => {
      const tick = f.x.ticks.find((t) => t.at === p.x);
      const bar = el("div", "bar"), full = el("div"), spread = el("s"), value = el("div", "value", short(p.median));
      full.style.width = percent(p.median);
      if (tick.elsewhere) full.className = "elsewhere";
      else redraw.push(() => (full.style.background = palette(0)));
      bar.append(full);
      if (p.min < p.max) {
        spread.style.left = percent(p.min);
        spread.style.width = `calc(${percent(p.max)} - ${percent(p.min)})`;
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
    const all = f.curves.flatMap((c) => c.points || []);
    if (!all.length) return fig.append(el("div", "axis", "There is nothing to draw."));
    // Without values that have names the axis is a scale, and the values are those of the points.
    const scale = !f.x.ticks, ticks = f.x.ticks || [...new Set(all.map((p) => p.x))].sort((a, b) => a - b).map((x) => ({ at: x, label: short(x) }));
    const xs = ticks.map((t) => t.at), first = xs[0], end = xs[xs.length - 1], logX = scale && f.x.log && first > 0;
    const at = (i) => look(names, f.curves[i].name);
    const rows = f.curves.map((c) => {
      const of = new Map((c.points || []).map((p) => [p.x, p]));
      return xs.map((x) => of.get(x) || null);
    });
    const room = (end - first) * 0.06 || 0.5;
    const lows = all.map((p) => p.min).filter((v) => !f.y.log || v > 0);
    const least = lows.reduce((a, b) => Math.min(a, b), lows[0] ?? 1), most = all.reduce((a, p) => Math.max(a, p.max), all[0].max);
    const plot = el("div"), legend = el("div", "legend");
    fig.append(plot, legend);
    const looks = { ...axis(12), ticks: { stroke: () => css("--line"), width: 1 }, labelFont: "12px system-ui, sans-serif", labelSize: 20 };
    const entries = f.curves.map((c, i) => {
      const e = el("span"), mark = el("i", at(i).dashed ? "dash" : ""), value = el("b");
      redraw.push(() => (mark.style.borderColor = at(i).colour));
      e.append(mark, c.name, value);
      return { e, value };
    });
    const where = el("span", "at", f.x.label ? "\u00a0" : "");
    const show = (i) => {
      where.textContent = i == null ? "\u00a0" : `${f.x.label ? f.x.label + ": " : ""}${ticks[i].label}`;
      entries.forEach((o, c) => (o.value.textContent = i != null && rows[c][i] ? told(rows[c][i]) : ""));
    };
    if (f.curves.length > 1 || f.curves[0].name !== f.title) legend.append(...entries.map((o) => o.e));
    legend.append(where);
    const u = new uPlot({
      width: Math.max(plot.clientWidth, 240), height: 300, legend: { show: false }, padding: [12, 12, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 9 } },
      scales: {
        x: logX ? { time: false, distr: 3, range: () => [first / 1.2, end * 1.2] } : { time: false, range: () => [first - room, end + room] },
        y: f.y.log ? { distr: 3, range: () => [least / 1.4, Math.max(most, least) * 1.4] } : { range: () => [Math.min(0, least * 1.08), most > 0 ? most * 1.08 : least < 0 ? 0 : 1] },
      },
      axes: [
        {
          ...looks, label: f.x.label || undefined, size: 32,
          ...(logX && { splits: (u, i, lo, hi) => round(lo, hi), filter: (u, splits) => splits }),
          // The values there are, as far as their names do not touch.
          ...(!scale && {
            splits: (u) => {
              let last = -1e9;
              return xs.filter((x, i) => {
                const p = u.valToPos(x, "x"), half = 3.6 * ticks[i].label.length + 4;
                if (p - half < last) return false;
                last = p + half;
                return true;
              });
            },
          }),
          values: (u, splits) => splits.map((s) => (scale ? short(s) : ticks[xs.indexOf(s)].label)),
        },
        {
          ...looks, label: f.y.label, size: 58,
          ...(f.y.log && { splits: (u, i, lo, hi) => round(lo, hi), filter: (u, splits) => splits }),
          values: (u, splits) => splits.map(short),
        },
      ],
      series: [{}, ...f.curves.map((c, i) => ({ stroke: () => at(i).colour, width: 2, dash: at(i).dashed ? [8, 5] : undefined, spanGaps: true, points: { show: rows[i].filter(Boolean).length <= 60, size: 7, fill: () => at(i).colour } }))],
      plugins: [whiskers(f.curves, at)],
      hooks: { setCursor: [(u) => show(u.cursor.left >= 0 ? u.cursor.idx : null)] },
    }, [xs, ...rows.map((r) => r.map((p) => (p ? p.median : null)))], plot);
    follow(plot, () => u, 300);
    redraw.push(() => u.redraw());
  };

  document.querySelectorAll("[data-figures]").forEach((box) => {
    const names = [];
    data[box.dataset.figures].figures.forEach((f) => {
      const fig = el("figure");
      box.append(fig);
      caption(fig, f);
      f.bars ? bars(fig, f) : lines(fig, f, names);
    });
  });

  // Phases: a row for each readout unit.
  const phases = (fig, t) => {
    const canvas = el("canvas", "phases"), line = el("div", "legend"), says = el("span", "at", "\u00a0");
    line.append(says);
    fig.append(canvas, line);
    const l = { span: t.span, rus: Array.from({ length: t.rus }, (_, i) => i), steps: t.phases.map(([ru, begin, sent, released, bu, mep]) => ({ ru, begin, sent, released, bu, mep })) };
    const draw = () => drawPhases(canvas, l);
    const lasted = (us) => (t.span > 2000 ? `${short(us / 1000)} ms` : `${short(us)} µs`);
    canvas.addEventListener("pointermove", (e) => {
      const p = phaseAt(canvas, l, e);
      if (!p) says.textContent = "\u00a0";
      else if (p.bu < 0) says.textContent = `RU ${p.ru}, nothing to send: waited ${lasted(p.released - p.begin)}`;
      else says.textContent = `RU ${p.ru} to BU ${p.bu}, MEP ${p.mep}: sent in ${lasted(p.sent - p.begin)}, waited ${lasted(p.released - p.sent)}`;
    });
    new ResizeObserver(draw).observe(fig);
    redraw.push(draw);
  };
  document.querySelectorAll("[data-timelines]").forEach((box) => {
    data[box.dataset.timelines].timelines.forEach((t) => {
      const fig = el("figure", "full");
      box.append(fig);
      caption(fig, { title: t.title });
      phases(fig, t);
    });
  });

  const again = () => redraw.forEach((f) => f());
  again();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
