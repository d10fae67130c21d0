// Pure functions for the scheduler's registers: queues with their marks, free slots over time, counters.
import { num } from "./logic.js";

const scheduler = (snapshot) => (snapshot && snapshot.scheduler) || null;

// marks are the shares of its capacity at which a queue's rises are counted.
export const marks = ["25 %", "50 %", "75 %", "87.5 %"];

// queues are the rows of the queues: how full each is and was, and how often it rose to each mark. Odd is one that was full.
export function queues(snapshot) {
  return ((scheduler(snapshot) || {}).queues || []).map(({ name, depth }) => {
    const d = depth || {}, crossed = d.crossed || [];
    return { name, now: num(d.now), most: num(d.max), of: num(d.capacity), crossed: marks.map((_, i) => num(crossed[i])), full: num(d.full), usage: `0x${num(d.usage).toString(16)}`, odd: num(d.full) > 0 };
  });
}

// counted are the counters that are not 0, in all and since the last clear (null where there was none).
export function counted(snapshot) {
  const r = scheduler(snapshot) || {}, before = r.cleared ? r.cleared.counters || {} : null;
  const of = Object.entries(r.counters || {}).map(([name, n]) => ({ name, all: num(n), since: before ? Math.max(0, num(n) - num(before[name])) : null }));
  const refused = Object.entries(r.refused || {}).map(([why, n]) => ({ name: `sessions refused: ${why}`, all: num(n), since: null }));
  return [...of, ...refused].filter((c) => c.all).sort((a, b) => (a.name < b.name ? -1 : 1));
}

// Free remembers the free slots of each group for the last samples of one run.
export class Free {
  constructor(most = 60) {
    this.most = most;
    this.run = null;
    this.at = "";
    this.samples = [];
  }

  add(snapshot) {
    const r = scheduler(snapshot);
    if (!r || snapshot.at === this.at) return;
    if (num(snapshot.run) !== this.run) this.samples = [];
    this.run = num(snapshot.run);
    this.at = snapshot.at;
    this.samples.push((r.groups || []).map((g) => num(g.free)));
    if (this.samples.length > this.most) this.samples.shift();
  }

  // rows are the groups, with the share of their slots that was free, the oldest first.
  rows(snapshot) {
    return ((scheduler(snapshot) || {}).groups || []).map((g, i) => {
      const over = this.samples.map((s) => s[i]).filter((v) => v !== undefined), free = num(g.free), slots = num(g.slots);
      return { name: (g.nodes || []).join(" "), free, slots, least: Math.min(free, ...over), shares: over.map((v) => (slots ? Math.min(1, v / slots) : 0)) };
    });
  }
}
