// What can be decided of decisions and filters without a browser: sums, shares, rates, the axis of their times. No DOM, no clock.
import { num } from "./logic.js";

const kinds = ["accepted", "rejected", "failed", "timed_out"];
const impossible = ["ahead", "old_epoch", "stranger", "unmeant", "broken", "foreign", "early"];

// decided reads what the decision unit told, or null if there is none.
export function decided(s) {
  const n = ((s && s.nodes) || []).find((n) => n.counters && "dec.events_triggered" in n.counters);
  if (!n) return null;
  const c = (name) => num(n.counters["dec." + name]);
  const of = Object.fromEntries(kinds.map((k) => [k, c("decisions_" + k)]));
  return {
    node: n.name, of, decisions: kinds.reduce((sum, k) => sum + of[k], 0), first: c("first"), pending: c("pending"), depth: c("depth"),
    without: c("timed_out") + c("overrun") + c("unanswered"), overrun: c("overrun"), late: c("results_late"), doubled: c("results_doubled"),
    impossible: impossible.reduce((sum, k) => sum + c("results_" + k), 0), silent: num(n.reportAgeMs) > 3000 ? num(n.reportAgeMs) / 1000 : 0,
    at: Date.parse(s.at) / 1000 - num(n.reportAgeMs) / 1000, run: num(s.run),
  };
}

// Pace is how many decisions come a second: of the last two seconds or so, by the times of the reports.
export class Pace {
  past = [];

  // add takes what was told and returns the rate, or null while it is not known.
  add(d) {
    const last = this.past[this.past.length - 1];
    if (last && (last.run !== d.run || d.decisions < last.decisions)) this.past = [];
    if (!this.past.length || d.at > this.past[this.past.length - 1].at + 0.2) this.past.push(d);
    while (this.past.length > 2 && d.at - this.past[1].at >= 2) this.past.shift();
    const from = this.past[0], to = this.past[this.past.length - 1];
    return to.at - from.at >= 0.5 ? (to.decisions - from.decisions) / (to.at - from.at) : null;
  }
}

// filters reads what the builder units told of their filters: a row each, none without filter.
export function filters(s) {
  return ((s && s.nodes) || []).filter((n) => n.counters && "bu.filter_accepted" in n.counters).map((n) => {
    const c = (name) => num(n.counters["bu.filter_" + name]), of = Object.fromEntries(kinds.map((k) => [k, c(k)])), judged = kinds.reduce((sum, k) => sum + of[k], 0);
    return { node: n.name, bu: num(n.buIndex), of, judged, mean: judged ? c("us") / judged : null, longest: c("longest_us"), held: c("held_us"), stuck: c("stuck"), silent: num(n.reportAgeMs) > 3000 };
  }).sort((a, b) => a.bu - b.bu);
}

// The parts of the way to a decision, in their order: "deeper" ones are parts of the one above.
const known = [
  { name: "decision", title: "Decision", what: "from when the event is known to be triggered to its decision" },
  { name: "building", title: "Building", deeper: true, what: "of it, until the last byte is in the builder unit; the way of the result is in it" },
  { name: "judged", title: "Judging", deeper: true, what: "of it, from the last byte to the verdict: checked, judged, taken by the output", most: 65535 },
  { name: "ordering", title: "Ordering", deeper: true, what: "of it, from the result to the decision: events before it had none yet" },
  { name: "filter_wait", title: "Filter, waiting", what: "from the last byte until the filter has the event" },
  { name: "filter", title: "Filter", what: "in the filter" },
  { name: "host", title: "In hosts", what: "packets, from when the kernel has them until they are taken in (--debug-stamps)" },
];

// parts makes the times ready to be drawn, on one axis for all: edges from and to of each bar as shares of it.
export function parts(s) {
  const told = new Map(((s && s.latencyParts) || []).map((p) => [p.name, p.latency || {}]));
  const bars = (l) => (l.bars || []).map((b) => ({ from: num(b.fromUs), to: num(b.toUs), n: num(b.count) })).filter((b) => b.n > 0 && b.to > b.from);
  const rows = known.filter((k) => told.has(k.name)).map((k) => ({ ...k, latency: told.get(k.name), bars: bars(told.get(k.name)) })).filter((r) => r.bars.length);
  if (!rows.length) return { rows, ticks: [] };
  const log = (v) => Math.log10(Math.max(v, 1)), lo = Math.floor(log(Math.min(...rows.map((r) => r.bars[0].from)))), hi = Math.max(lo + 1, Math.ceil(log(Math.max(...rows.map((r) => r.bars[r.bars.length - 1].to)))));
  const x = (v) => (log(v) - lo) / (hi - lo);
  const ticks = Array.from({ length: hi - lo + 1 }, (_, i) => ({ us: 10 ** (lo + i), x: i / (hi - lo) }));
  return { ticks, rows: rows.map((r) => {
    const most = Math.max(...r.bars.map((b) => b.n)), l = r.latency;
    const capped = (us) => Boolean(r.most) && num(us) >= r.most; // "that or longer"
    return { ...r, bars: r.bars.map((b) => ({ ...b, x: x(b.from), w: x(b.to) - x(b.from), share: b.n / most })), times: [l.p50Us, l.p99Us, l.p999Us, l.maxUs].map((us) => ({ us: num(us), x: x(num(us)), more: capped(us) })) };
  }) };
}
