// What samples of counters become: curves of rates. Nothing here knows of the page.
import { num } from "./logic.js";

export const kept = 2048;

// asked is the address of a stream of samples.
export function asked(q) {
  return "/v1/sample?" + new URLSearchParams({ node: q.node, intervalUs: String(q.interval), each: String(q.each) });
}

// Samples keeps the newest ones, as rates a second between neighbours; levels stay as they are.
export class Samples {
  columns = [];
  at = []; // s
  rates = []; // by column
  missed = 0;
  late = 0;
  #last = null;

  take(m) {
    if (m.columns && m.columns.length) {
      this.columns = m.columns.map((c) => ({ name: c.of ? `${c.name}@${c.of}` : c.name, counter: c.name, unit: c.unit, level: c.kind !== "counter" }));
      this.at = [];
      this.rates = this.columns.map(() => []);
      this.#last = null;
    }
    this.missed = num(m.missed);
    this.late = num(m.late);
    const width = this.columns.length, times = m.atUs || [], values = m.values || [];
    if (!width || values.length !== width * times.length) return;
    times.forEach((t, i) => {
      const at = num(t) / 1e6, row = values.slice(i * width, (i + 1) * width).map(num), last = this.#last;
      this.#last = { at, row };
      if (!last || at <= last.at) return;
      this.at.push(at);
      this.columns.forEach((c, k) => this.rates[k].push(c.level ? row[k] : Math.max(0, row[k] - last.row[k]) / (at - last.at)));
    });
    const over = this.at.length - kept;
    if (over > 0) for (const list of [this.at, ...this.rates]) list.splice(0, over);
  }

  // counters are the names that the columns have, once each.
  get counters() {
    return [...new Set(this.columns.map((c) => c.counter))];
  }

  // of gives the columns of a counter, with their curves.
  of(counter) {
    return this.columns.map((c, i) => ({ ...c, data: this.rates[i] })).filter((c) => c.counter === counter);
  }
}
