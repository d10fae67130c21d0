// What the record of a run says of each live source: sizes, intervals, missing fragments; compared with those of another run. No DOM.
import { num } from "./logic.js";

// quantities are what the record has histograms of, with their units.
export const quantities = [{ key: "size_bytes", title: "Sizes", unit: "bytes" }, { key: "interval_us", title: "Intervals", unit: "µs" }, { key: "banks", title: "Banks", unit: "banks" }];

// readSources reads the sources of a report, which is the JSON of a record.
export function readSources(reportJSON) {
  let report;
  try {
    report = JSON.parse(reportJSON || "null");
  } catch {
    return [];
  }
  return ((report && report.sources) || []).map((x) => ({
    id: num(x.source), name: x.name || "", fragments: num(x.fragments), missing: num(x.missing), used: num(x.used), history: readHistory(x.missing_by_time),
    ...Object.fromEntries(quantities.map(({ key }) => [key, readBars(x[key])])),
  }));
}

// readBars reads a histogram: bars by growing value, and its median; null if nothing was counted.
function readBars(d) {
  const bars = ((d && d.bars) || []).map((b) => ({ from: num(b.from), to: num(b.to), n: num(b.n) })).filter((b) => b.n > 0 && b.to >= b.from);
  const sum = bars.reduce((n, b) => n + b.n, 0);
  return sum ? { bars, sum, p50: num(d.p50) } : null;
}

// readHistory reads when fragments were missing: cells from the first MEP on, each with its seconds, events and missing fragments.
function readHistory(d) {
  const missing = (d && d.missing) || [], each = num(d && d.bin_ms) / 1000;
  return ((d && d.events) || []).map((n, i) => ({ from: i * each, to: (i + 1) * each, events: num(n), missing: num(missing[i]) }));
}

// shadeOf is how dark a cell is, from 0 to 1: a little for one missing fragment, full where every event lacks one.
export const shadeOf = (c) => (c.missing && c.events ? 0.2 + 0.8 * Math.sqrt(Math.min(1, c.missing / c.events)) : 0);

// find finds the same source in another run: by name if it has one, else by its place in the input.
export const find = (list, x) => list.find((y) => (x.name ? y.name === x.name : y.id === x.id)) || null;

// likeness is the part of two histograms that is common, from 0 to 1; null if one is empty. The runs may differ in length.
export function likeness(a, b) {
  if (!a || !b) return null;
  const of = new Map(b.bars.map((x) => [x.from, x.n / b.sum]));
  return a.bars.reduce((n, x) => n + Math.min(x.n / a.sum, of.get(x.from) || 0), 0);
}

// span is the range of histograms, on a logarithmic axis; null if all are empty.
export function span(...all) {
  const bars = all.filter(Boolean).flatMap((d) => d.bars);
  return bars.length ? { lo: Math.log10(1 + Math.min(...bars.map((b) => b.from))), hi: Math.log10(2 + Math.max(...bars.map((b) => b.to))) } : null;
}

// steps are the bars of a histogram in a box of 1 by 1: left edge, width, height. The highest has height 1.
export function steps(d, { lo, hi }) {
  const most = Math.max(...d.bars.map((b) => b.n)), x = (v) => (Math.log10(1 + v) - lo) / (hi - lo || 1);
  return d.bars.map((b) => ({ x: x(b.from), width: Math.max(0.008, x(b.to + 1) - x(b.from)), height: b.n / most, ...b }));
}

// csv writes the histograms of a run for other programs: a line for each bar, and for each time at which fragments were missing, in s.
export function csv(run, list) {
  const quoted = (v) => (/[",\n\r]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
  const line = (x, key, b, n) => [run, x.id, quoted(x.name), key, b.from, b.to, n];
  const lines = list.flatMap((x) => [
    ...quantities.flatMap(({ key }) => (x[key] ? x[key].bars : []).map((b) => line(x, key, b, b.n))),
    ...x.history.filter((c) => c.missing).map((c) => line(x, "missing_s", c, c.missing)),
  ]);
  return ["run,source,name,quantity,from,to,count", ...lines.map((l) => l.join(","))].join("\n") + "\n";
}
