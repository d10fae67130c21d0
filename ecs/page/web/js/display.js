// What can be decided of an event display without a browser: what is asked, what is in which window, what is known so far. No DOM, no clock.

export const boardType = 8; // docs/format/velo.md

// drawable says whether an event has fragments of a vertex detector, with their bytes.
export const drawable = (e) => Boolean(e) && e.fragments.some((f) => f.type === boardType && f.data && f.data.length);

// posted is what is asked for an event: its boards.
export function posted(e) {
  const packed = (data) => btoa(Array.from(data, (b) => String.fromCharCode(b)).join(""));
  return { run: e.run, event: Number(e.event), fragments: e.fragments.filter((f) => f.type === boardType && f.data).map((f) => ({ source: f.source, type: f.type, data: packed(f.data) })) };
}

// radius of a point is drawn as hits are: negative in the half with x < 0.
export const radius = (p) => Math.hypot(p.x, p.y) * (p.x < 0 ? -1 : 1);

// whole is the window in which all sensors are: z and r, in mm.
export function whole(a) {
  const z = a.planes.map((p) => p[0]), r = Math.max(...a.planes.map((p) => Math.abs(p[2])));
  return { z0: Math.min(...z) - 15, z1: Math.max(...z) + 15, r0: -1.08 * r, r1: 1.08 * r };
}

const beside = 60; // mm behind the collision, where a decay is still looked at closely

// close is the window around the vertices; null where none was found and none is known.
export function close(a) {
  const first = a.primaries[0] || (a.truth && a.truth.vertices && a.truth.vertices[0]);
  if (!first) return null;
  const known = [...a.primaries, a.secondary, ...((a.truth && a.truth.vertices) || []).filter((v) => v.kind !== "strange")].filter((v) => v && Math.abs(v.z - first.z) < beside);
  const z = known.map((v) => v.z), r = Math.max(0.5, ...known.map((v) => Math.abs(radius(v)))) * 1.5, room = Math.max(2, 0.15 * (Math.max(...z) - Math.min(...z)));
  return { z0: Math.min(...z) - room, z1: Math.max(...z) + room, r0: -r, r1: r };
}

// ticks are round values within a range, at most so many.
export function ticks(from, to, most) {
  const raw = (to - from) / most, ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((k) => k * ten).find((v) => v >= raw);
  return Array.from({ length: Math.floor(to / step) - Math.ceil(from / step) + 1 }, (_, i) => Number(((Math.ceil(from / step) + i) * step).toPrecision(6)));
}

// Tally holds what was accepted against what happened, of the events that were drawn, each once.
export class Tally {
  seen = new Set();
  counts = { with: 0, withAccepted: 0, without: 0, withoutAccepted: 0 };

  add(key, a) {
    if (!a.truth || a.lacking || this.seen.has(key)) return this.counts; // with boards missing it is another question
    this.seen.add(key);
    const side = a.truth.displaced ? "with" : "without";
    this.counts[side]++;
    if (a.accepted) this.counts[side + "Accepted"]++;
    return this.counts;
  }
}
