// What can be decided without a browser. No DOM, no network, no clock of its own: `node --test` runs its tests.

// ---- figures as people read them

// num reads a number of the API: 64-bit ones come as text.
export const num = (v) => (v === undefined || v === null || v === "" ? 0 : Number(v));

// short writes three digits that matter.
export function short(v) {
  if (!Number.isFinite(v)) return "–";
  if (v === 0) return "0";
  const three = Number(v.toPrecision(3)); // 999.6 is 1000, and has no digit behind the point
  return three.toFixed(Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(three))), 0), 3));
}

const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

// scaled takes a figure to the prefix that fits: [text, unit].
export function scaled(v, unit) {
  const [by, prefix] = steps.find(([by]) => Math.abs(v) >= by * 0.9995) || [1, ""];
  return [short(v / by), prefix + unit];
}

// brief writes a figure for an axis: no unit, no digits that say nothing.
export function brief(v) {
  const [text, prefix] = scaled(v, "");
  return (text.includes(".") ? text.replace(/\.?0+$/, "") : text) + prefix;
}

export const rate = (hz) => scaled(num(hz), "Hz");
export const bits = (bytesPerS) => scaled(num(bytesPerS) * 8, "bit/s");
export const bytes = (n) => scaled(num(n), "B");
export const joined = ([text, unit]) => (unit ? `${text}\u202f${unit}` : text);

// count writes a whole number in groups of three.
export const count = (n) => String(Math.round(num(n))).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

// micros writes a time given in µs.
export function micros(us) {
  const v = num(us);
  if (Math.abs(v) >= 1e6) return `${short(v / 1e6)}\u202fs`;
  if (Math.abs(v) >= 1e3) return `${short(v / 1e3)}\u202fms`;
  return `${short(v)}\u202fµs`;
}

// span writes a time given in seconds.
export function span(s) {
  const v = num(s);
  if (v < 1) return `${Math.round(v * 1000)}\u202fms`;
  if (v < 60) return `${v.toFixed(1)}\u202fs`;
  const whole = Math.round(v), pad = (n) => String(n).padStart(2, "0");
  if (v < 3600) return `${Math.floor(whole / 60)}\u202fmin ${pad(whole % 60)}\u202fs`;
  return `${Math.floor(whole / 3600)}\u202fh ${pad(Math.floor((whole % 3600) / 60))}\u202fmin`;
}

// length reads a duration of the API ("5s", "0.5s") into seconds.
export const length = (text) => num(String(text || "0s").replace(/s$/, ""));

// time and day write a time of the API in UTC; nothing for one that is not there.
const noted = (at) => Boolean(at) && !String(at).startsWith("0001-");
export const time = (at) => (noted(at) ? new Date(at).toISOString().slice(11, 19) : "");
export const exact = (at) => (noted(at) ? new Date(at).toISOString().slice(11, 23) : "");
export const day = (at) => (noted(at) ? new Date(at).toISOString().slice(0, 19).replace("T", " ") : "");
export const between = (from, to) => (from && to ? (Date.parse(to) - Date.parse(from)) / 1000 : 0);

// word takes an enum of the API to a word: "ROLE_ADMIN" is "admin".
export function word(value) {
  const w = String(value || "").replace(/^(ROLE|SEVERITY|VERDICT)_/, "");
  return w === "UNSPECIFIED" ? "" : w.toLowerCase();
}

// ---- states

// look says how a component is shown: the words of its state, a kind that has a colour, a mark that needs none.
export function look(c) {
  if (!c || !c.state) return { text: "unknown", kind: "off", mark: "dash" };
  if (c.inError || c.state === "Error") return { text: "Error", kind: "error", mark: "cross" };
  if (c.spare) return { text: "Spare", kind: "off", mark: "dash" };
  if (c.included === false) return { text: c.state === "Offline" ? "Offline, excluded" : "Excluded", kind: "out", mark: "bar" };
  if (c.inBetween) return { text: c.inBetween, kind: "moving", mark: "dots" };
  switch (c.state) {
    case "Running": return { text: "Running", kind: "running", mark: "play" };
    case "Paused": return { text: "Paused", kind: "paused", mark: "pause" };
    case "Ready": return { text: "Ready", kind: "ready", mark: "disc" };
    case "NotReady": return { text: "NotReady", kind: "idle", mark: "ring" };
    default: return { text: c.state, kind: "off", mark: "dash" };
  }
}

// verdicts of runs likewise.
export function verdict(run) {
  switch (word(run.verdict)) {
    case "good": return { text: "GOOD", kind: "running", mark: "tick" };
    case "incomplete": return { text: "INCOMPLETE", kind: "paused", mark: "part" };
    case "degraded": return { text: "DEGRADED", kind: "degraded", mark: "warn" };
    case "aborted": return { text: "ABORTED", kind: "error", mark: "cross" };
    default: return { text: "goes on", kind: "moving", mark: "dots" };
  }
}

export function severity(value) {
  switch (word(value)) {
    case "error": return { text: "error", kind: "error", mark: "cross" };
    case "warning": return { text: "warning", kind: "degraded", mark: "warn" };
    default: return { text: "info", kind: "off", mark: "info" };
  }
}

// witness is who saw a fault, of an evidence that may begin with "seen by" itself.
export const witness = (evidence) => String(evidence || "").replace(/^seen by /, "");

// every lists a tree's components with their depth, parents first.
export function every(root, depth = 0, path = "") {
  if (!root) return [];
  const id = path + "/" + root.name;
  return [{ c: root, depth, id }, ...(root.children || []).flatMap((c) => every(c, depth + 1, id))];
}

export const nodesOf = (status) => ((status && status.root && status.root.children) || []).filter((c) => c.kind === "node");

// ---- commands

const article = (words) => (words.length < 2 ? words.join("") : words.slice(0, -1).join(", ") + " or " + words[words.length - 1]);

// hindrance says why a command cannot be given now, in one sentence; nothing if it can.
export function hindrance(cmd, status) {
  const root = status && status.root;
  if (!root) return "The state is not known yet.";
  const role = word(status.you && status.you.role), owner = status.owner && status.owner.name;
  if (role === "viewer" || role === "") return "You are a viewer: commands are an operator's.";
  if (owner && owner !== status.you.name) return `${owner} has control. Take it first, or ask for it.`;
  const state = root.inBetween || root.state;
  if (!(status.allowed || []).includes(cmd.name)) {
    const where = cmd.allowedIn || [];
    return where.length ? `Not in ${state}: it is allowed in ${article(where)}.` : `Not in ${state}.`;
  }
  if (cmd.to && root.state === cmd.to && !root.inBetween && !root.inError) return `The partition is ${cmd.to} already.`;
  if (cmd.via && root.inBetween === cmd.via) return `It is ${cmd.via.toLowerCase()} already.`;
  return "";
}

// next is the command that brings the partition on; none where there is nothing to wait for.
export function next(fsm, status) {
  const found = ((fsm && fsm.commands) || []).find((c) => c.via && !c.destructive && c.name !== "pause" && c.name !== "reset" && c.name !== "unload" && !hindrance(c, status));
  return found ? found.name : "";
}

// pointed are the commands that are about one component: they have a required argument that is a node, and no other.
export const pointed = (fsm) => ((fsm && fsm.commands) || []).filter((c) => (c.arguments || []).some((a) => a.type === "node") && (c.arguments || []).every((a) => a.type === "node" || !a.required));

// argumentFault says what is wrong with a value before it is sent; the server has the last word.
export function argumentFault(arg, value) {
  const v = (value || "").trim();
  if (!v) return arg.required ? `${arg.name} must be given.` : "";
  if (arg.type === "uint" && !/^\d+$/.test(v)) return `${arg.name}: "${v}" is no whole number.`;
  if (arg.type === "duration" && !/^([\d.]+(ns|us|µs|ms|s|m|h))+$/.test(v)) return `${arg.name}: "${v}" is no duration; write 30s, 5m or 1h30m.`;
  if (arg.type === "settings") {
    const bad = v.split("\n").find((line) => line.trim() && !/^\s*[\w.-]+\s*=/.test(line));
    if (bad) return `${arg.name}: "${bad.trim()}" is no setting; write name=value, one a line.`;
  }
  return "";
}

// failure puts an error of the API into sentences: what went wrong, then each detail that says more.
export function failure(body, httpStatus) {
  const out = [];
  const say = (s) => {
    const text = s && String(s).trim();
    if (text && !out.some((o) => o === text || o.includes(text))) out.push(text);
  };
  if (body && body.message) say(body.message);
  for (const d of (body && body.details) || []) {
    for (const v of d.violations || []) say(v.description);
    for (const v of d.fieldViolations || []) say(v.field && !String(v.description).includes(v.field) ? `${v.field}: ${v.description}` : v.description);
    if (d.metadata && d.metadata.evidence) say(`Seen by: ${d.metadata.evidence}`);
  }
  if (!out.length) say(`The control answered ${httpStatus}.`);
  return out;
}

// ---- live figures

const perSecond = (v) => [v && v < 10 ? short(v) : count(v), "/s"];

// drawn are the figures with a curve: what each is of a snapshot's total, whether it is a sum whose growth is drawn, and what stands beside.
export const drawn = [
  { column: "rate", of: (f) => num(f.eventRateHz), title: "Event rate", write: rate, colour: "--c1", height: 150, class: "wide2", words: (f) => `${count(f.eventsBuilt)} built` },
  { column: "throughput", of: (f) => num(f.throughputBytesPerS) * 8, title: "Throughput", write: (v) => bits(v / 8), colour: "--c2", height: 150, class: "wide2", words: (f) => `${count(f.mepsBuilt)} MEPs` },
  { column: "flight", of: (f) => num(f.mepsInFlight), title: "In flight", write: (v) => [count(v), "MEPs"], colour: "--c3", words: () => "" },
  { column: "resent", of: (f) => num(f.chunksResent), sum: true, title: "Re-sent", write: perSecond, colour: "--c5", words: (f) => `${count(f.chunksResent)} chunks` },
];

// History keeps the last minutes of the figures that are drawn, in columns as uPlot takes them.
export class History {
  static columns = ["t", ...drawn.map((d) => d.column)];

  constructor(seconds = 300) {
    this.seconds = seconds;
    this.data = History.columns.map(() => []);
    this.last = null;
  }

  // add takes a snapshot. Sums become rates; what would be a rate over a gap, or from one run to the next, is none.
  add(s) {
    const t = Date.parse(s.at) / 1000, f = s.total || {}, before = this.last;
    if (!Number.isFinite(t) || (before && t <= before.t)) return;
    const now = { t, run: num(s.run), values: drawn.map((d) => d.of(f)) };
    this.last = now;
    if (before && t - before.t > 5) this.push(before.t + (t - before.t) / 2, ...drawn.map(() => null)); // the curve has a hole here
    const grown = (v, i) => (before && before.run === now.run && t - before.t <= 5 && v >= before.values[i] ? (v - before.values[i]) / (t - before.t) : 0);
    this.push(t, ...now.values.map((v, i) => (drawn[i].sum ? grown(v, i) : v)));
    const from = t - this.seconds;
    let old = 0;
    while (this.data[0][old] < from) old++;
    if (old) for (const column of this.data) column.splice(0, old);
  }

  push(...row) {
    row.forEach((v, i) => this.data[i].push(v));
  }

  latest(name) {
    const column = this.data[History.columns.indexOf(name)];
    return column.length ? column[column.length - 1] : null;
  }

  // saved and restored carry it over a reload of the page.
  saved() {
    return JSON.stringify({ data: this.data, last: this.last });
  }

  restored(text, now) {
    try {
      const o = JSON.parse(text);
      if (!Array.isArray(o.data) || o.data.length !== this.data.length || o.data.some((c) => !Array.isArray(c) || c.length !== o.data[0].length)) return this;
      if (!o.last || !Array.isArray(o.last.values) || now - o.last.t > this.seconds || o.last.t > now + 5) return this;
      this.data = o.data;
      this.last = o.last;
    } catch {
      // it was not ours, or torn: begin anew
    }
    return this;
  }
}

// Log keeps the newest events, each once, by their numbers.
export class Log {
  constructor(most = 2000) {
    this.most = most;
    this.events = []; // oldest first
    this.last = 0;
  }

  // add says whether the event was new. Where it comes after a gap of the stream, the server sends what was missed.
  add(e) {
    const n = num(e.number);
    if (n <= this.last) return false;
    this.last = n;
    this.events.push(e);
    if (this.events.length > this.most) this.events.splice(0, this.events.length - this.most);
    return true;
  }

  // anew forgets the numbers: the control counts from the start again. What was seen stays.
  anew() {
    this.last = 0;
  }
}

// matrix arranges the traffic by readout and builder unit.
export function matrix(traffic) {
  const at = new Map(), rus = new Set(), bus = new Set();
  let most = 0, sum = 0;
  for (const t of traffic || []) {
    const ru = num(t.ru), bu = num(t.bu), v = num(t.bytesPerS);
    rus.add(ru);
    bus.add(bu);
    at.set(`${ru} ${bu}`, { rate: v, bytes: num(t.bytes), resent: num(t.chunksResent) });
    most = Math.max(most, v);
    sum += v;
  }
  const sorted = (set) => [...set].sort((a, b) => a - b);
  return { rus: sorted(rus), bus: sorted(bus), most, sum, at: (ru, bu) => at.get(`${ru} ${bu}`) };
}

// lanes prepares the timeline: steps with times from 0, and for each phase in which several units took part the one that sent last.
export function lanes(timeline) {
  const steps = (timeline || []).map((s) => ({ ru: num(s.ru), phase: num(s.phase), bu: num(s.bu), mep: num(s.mep), begin: num(s.beginUs), sent: num(s.sentUs), released: num(s.releasedUs) }))
    .filter((s) => s.begin > 0 && s.released >= s.begin)
    .map((s) => ({ ...s, sent: s.sent < s.begin ? s.released : Math.min(s.sent, s.released) }));
  if (!steps.length) return { rus: [], steps: [], span: 0, held: new Map() };
  const rus = [...new Set(steps.map((s) => s.ru))].sort((a, b) => a - b);
  // The time of which every unit has told: before and after it the picture would be of some units only.
  const of = (ru, key) => steps.filter((s) => s.ru === ru).map((s) => s[key]);
  let from = Math.max(...rus.map((ru) => Math.min(...of(ru, "begin")))), to = Math.min(...rus.map((ru) => Math.max(...of(ru, "released"))));
  if (to <= from) [from, to] = [Math.min(...steps.map((s) => s.begin)), Math.max(...steps.map((s) => s.released))]; // there is none
  const phases = new Map();
  for (const s of steps) {
    if (!phases.has(s.phase)) phases.set(s.phase, []);
    phases.get(s.phase).push(s);
  }
  const held = new Map();
  for (const [phase, of] of phases) {
    if (of.length < 2 || of.length < rus.length) continue;
    const [late, before] = [...of].sort((a, b) => b.sent - a.sent);
    held.set(phase, { ru: late.ru, by: late.sent - before.sent });
  }
  const within = (us) => Math.min(to, Math.max(from, us)) - from;
  const shown = steps.filter((s) => s.released > from && s.begin < to).map((s) => ({ ...s, begin: within(s.begin), sent: within(s.sent), released: within(s.released), last: s.sent <= to }));
  return { rus, steps: shown, span: to - from, held };
}

// holders says who entered the barrier last, most frequent first, as shares.
export function holders(list) {
  const all = (list || []).reduce((n, h) => n + num(h.epochs), 0);
  if (!all) return [];
  return list.map((h) => ({ ru: num(h.ru), share: num(h.epochs) / all, p50: num(h.byUsP50), p99: num(h.byUsP99) })).sort((a, b) => b.share - a.share);
}

// ---- records

// explained is what a counter means, by the list of all that there are.
export function explained(list, name) {
  const c = (list || []).find((c) => c.name === name || (c.byKind && name.startsWith(c.name)));
  return c ? c.help + (c.unit ? ` (${c.unit})` : "") : "";
}

// counters reads a report into a table: names down, nodes across. Names that are 0 everywhere say nothing and are left out.
export function counters(reportJSON) {
  let report;
  try {
    report = JSON.parse(reportJSON || "null");
  } catch {
    return { nodes: [], rows: [], scheduler: [] };
  }
  const list = (report && report.counters) || [];
  const names = [...new Set(list.flatMap((n) => Object.keys(n.counters || {})))].sort();
  const rows = names.map((name) => ({ name, values: list.map((n) => num((n.counters || {})[name])) })).filter((r) => r.values.some((v) => v));
  const scheduler = Object.entries((report && report.scheduler) || {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return { nodes: list.map((n) => n.node), rows, scheduler };
}

// ends says in words why a run ended.
const ends = {
  duration: "the time was up", events: "as many events as asked for", end_of_input: "the input was read to its end", stopped: "a user stopped it",
  bad_input: "a bad record in the input", fault: "a fault", control_lost: "the control was away for too long", reset: "a user gave it up",
};
export const ending = (run) => ends[run.end] || run.end || "";

// match says whether an event is of what is asked for.
export function match(e, filter) {
  if (filter.kind && e.kind !== filter.kind) return false;
  if (!filter.logs && e.kind === "log") return false;
  const bad = word(e.severity);
  if (filter.severity === "warning" && bad !== "warning" && bad !== "error") return false;
  if (filter.severity === "error" && bad !== "error") return false;
  const text = filter.text && filter.text.toLowerCase();
  return !text || `${e.component} ${e.text} ${e.user} ${e.kind}`.toLowerCase().includes(text);
}
