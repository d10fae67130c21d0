// What can be decided of sources and events without a browser: cells of the heat map, raw banks, dumps. No DOM, no clock.
import { bytes, joined, micros, num, rate, short } from "./logic.js";

// ---- sources

const kept = ["fragments", "bytes", "missing", "used"]; // sums whose growth is kept

// Heat keeps what each live source gave in the last minutes, in columns of some seconds.
export class Heat {
  constructor(columns = 60, step = 5) {
    this.columns = columns;
    this.step = step;
    this.past = new Map(); // number of the column → id → what grew in it
    this.last = null;
  }

  // add takes a snapshot. Over a gap, and from one run to the next, nothing grows: those cells stay empty.
  add(s) {
    const t = Date.parse(s.at) / 1000, before = this.last;
    if (!Number.isFinite(t) || (before && t <= before.t)) return;
    const now = { t, run: num(s.run), of: new Map((s.sources || []).map((x) => [num(x.source), Object.fromEntries(kept.map((k) => [k, num(x[k])]))])) };
    this.last = now;
    if (!before || before.run !== now.run || t - before.t > 5 || !now.run) return;
    const column = Math.floor(t / this.step);
    if (!this.past.has(column)) this.past.set(column, new Map());
    for (const k of this.past.keys()) if (k <= column - this.columns) this.past.delete(k);
    const cells = this.past.get(column);
    for (const x of s.sources || []) {
      const id = num(x.source), v = now.of.get(id), was = before.of.get(id);
      if (x.silent || !was || kept.some((k) => v[k] < was[k])) continue;
      const c = cells.get(id) || { fragments: 0, bytes: 0, missing: 0, used: 0, age: 0, time: 0 };
      for (const k of kept) c[k] += v[k] - was[k];
      c.age = Math.max(c.age, v.fragments ? num(x.ageUs) : 0);
      c.time += t - before.t;
      cells.set(id, c);
    }
  }

  // grid is the map of one measure: a row for each source that is there now, a value or null for each column, the newest last.
  grid(measure) {
    const ids = this.last ? [...this.last.of.keys()].sort((a, b) => a - b) : [];
    const newest = this.last ? Math.floor(this.last.t / this.step) : 0, from = newest - this.columns + 1;
    let most = 0;
    const rows = ids.map((id) => Array.from({ length: this.columns }, (_, i) => {
      const c = this.past.get(from + i), cell = c && c.get(id), v = cell && cell.time > 0 ? measure.of(cell) : null;
      if (v !== null && v > most) most = v;
      return v;
    }));
    return { ids, rows, from: from * this.step, step: this.step, most };
  }
}

// measures are what the map can show: a figure of a cell, its shade from 0 to 1, given the largest, and how it is written.
export const measures = [
  { id: "rate", title: "Fragments a second", of: (c) => c.fragments / c.time, shade: (v, most) => (most ? v / most : 0), write: (v) => joined(rate(v)), colour: "--accent" },
  { id: "missing", title: "Missing fragments", of: (c) => (c.missing + c.used ? c.missing / (c.missing + c.used) : 0), shade: (v) => (v ? 0.2 + 0.8 * Math.sqrt(v) : 0), write: (v) => `${short(100 * v)}\u202f% missing`, colour: "--c4" },
  { id: "size", title: "Mean size", of: (c) => (c.fragments ? c.bytes / c.fragments : null), shade: (v, most) => (most ? v / most : 0), write: (v) => `${joined(bytes(v))} each`, colour: "--c3" },
  { id: "age", title: "Age of the newest fragment", of: (c) => c.age, shade: (v) => Math.min(1, Math.max(0, Math.log10(Math.max(v, 1)) - 4) / 3), write: (v) => `${micros(v)} old at most`, colour: "--c4" }, // 10 ms is nothing, 10 s is all
];

// condition says how a source does, as a chip shows it; alarms are those that are on.
export function condition(x, alarms) {
  if (x.silent) return { text: "not told", kind: "off", mark: "dash" };
  if ((alarms || []).some((a) => a.rule.startsWith("source-") && a.component.startsWith(`source ${num(x.source)} `))) return { text: "behind", kind: "degraded", mark: "warn" };
  if (!num(x.fragments)) return { text: "nothing yet", kind: "idle", mark: "ring" };
  if (num(x.gone) && num(x.gone) >= num(x.attached)) return { text: "gone", kind: "error", mark: "cross" };
  return num(x.fragmentsPerS) ? { text: "gives", kind: "running", mark: "play" } : { text: "quiet", kind: "idle", mark: "ring" };
}

// lacking is how many fragments are missing, and which part of the events that is.
export function lacking(x) {
  const n = num(x.missing), of = n + num(x.used);
  return n ? short((100 * n) / of) + "\u202f%" : "";
}

// ---- events

const missingType = 92, containerType = 240; // docs/format/rawbank.md

// unpacked reads base64 into bytes.
export const unpacked = (text) => Uint8Array.from(atob(text || ""), (c) => c.charCodeAt(0));

// named is a bank type as people know it: its name, or its number.
export const named = (names, type) => (names && names[num(type)]) || `type ${num(type)}`;

// banks walks the raw banks of a container (docs/format/rawbank.md). What is no bank ends the walk, and is told.
export function banks(data) {
  const out = [], view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;
  while (at < data.length) {
    if (data.length - at < 8 || view.getUint16(at, true) !== 0xcbcb) return { banks: out, fault: `no bank at byte ${at}` };
    const size = view.getUint16(at + 2, true), padded = (size + 3) & ~3;
    if (size < 8 || padded > data.length - at) return { banks: out, fault: `the bank at byte ${at} says it has ${size} bytes` };
    out.push({ at, type: data[at + 4], version: data[at + 5], source: view.getInt16(at + 6, true), size: size - 8 });
    at += padded;
  }
  return { banks: out, fault: "" };
}

// dump writes bytes as hexdump -C has them, the first ones at most; all has so many, of which data may be the first.
export function dump(data, all = data.length, most = 1024) {
  const lines = [], hex = (v, n) => v.toString(16).padStart(n, "0");
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const row = [...data.subarray(at, Math.min(at + 16, data.length, most))];
    const digits = row.map((b, i) => hex(b, 2) + (i === 7 ? " " : "")).join(" ").padEnd(48);
    lines.push(`${hex(at, 8)}  ${digits}  |${row.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join("")}|`);
  }
  const rest = all - Math.min(data.length, most);
  if (rest > 0) lines.push(`… ${rest} bytes more`);
  return lines.join("\n");
}

// sample makes an event of the tap ready to be shown, given the names of bank types.
export function sample(e, names) {
  const fragments = (e.fragments || []).map((f) => {
    const type = num(f.type), data = f.data === undefined || f.data === null ? null : unpacked(f.data);
    const held = type === containerType && data ? banks(data) : { banks: [], fault: "" };
    return { source: num(f.source), type, name: type === missingType ? "missing" : named(names, type), version: num(f.version), size: num(f.size), missing: type === missingType, data, banks: held.banks.map((b) => ({ ...b, name: named(names, b.type) })), fault: held.fault };
  });
  return { event: String(e.event || 0), run: num(e.run), mep: String(e.mep || 0), attempt: num(e.attempt), builder: e.builder || "", size: fragments.reduce((n, f) => n + f.size, 0), missing: fragments.filter((f) => f.missing).length, largest: Math.max(0, ...fragments.map((f) => f.size)), fragments };
}

// wanted makes the address of a stream of samples; what is empty is left out.
export function wanted(filter) {
  const q = new URLSearchParams({ rate: "1", data: "true" });
  for (const [name, list] of [["sources", filter.sources], ["types", filter.types]]) for (const v of String(list || "").split(/[\s,]+/).filter(Boolean)) q.append(name, v);
  if (filter.maxSize) q.set("maxSize", String(filter.maxSize));
  return "/v1/tap?" + q;
}
