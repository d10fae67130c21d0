// Run by TestLogicOfTheScript, or by hand: node --test ecs/page/testdata/
import test from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
// The modules are served as they are, without a package.json that would tell Node.js what they are.
// A module that takes from another one gets that in its place.
const files = { "./logic.js": "../web/js/logic.js", "../uplot/phases.js": "../../../internal/uplot/phases.js" };
const address = (path) => "data:text/javascript," + encodeURIComponent(readFileSync(new URL(path, import.meta.url), "utf8").replace(/from "([^"]+)"/g, (_, from) => `from "${address(files[from])}"`));
const load = (path) => import(address(path));
const q = await load("../web/js/quality.js"), heat = await load("../web/js/heat.js"), dec = await load("../web/js/decisions.js"), shown = await load("../web/js/display.js");
const of = await load("../web/js/distributions.js");
const reg = await load("../web/js/registers.js");
const l = await load("../web/js/logic.js"), drawing = await load("../../../internal/uplot/phases.js");
const plain = (s) => s.replaceAll("\u202f", " ");

test("figures have three digits and the prefix that fits", () => {
  for (const [v, want] of [[0, "0 Hz"], [0.5, "0.500 Hz"], [12, "12.0 Hz"], [999.6, "1.00 kHz"], [80123, "80.1 kHz"], [30e6, "30.0 MHz"]]) assert.equal(plain(l.joined(l.rate(v))), want);
  assert.equal(plain(l.joined(l.bits(125e6))), "1.00 Gbit/s");
  assert.equal(plain(l.joined(l.bytes("753000000"))), "753 MB");
  assert.equal(plain(l.count("18446744073709")), "18 446 744 073 709");
  assert.equal(plain(l.micros("-4200")), "-4.20 ms");
  for (const [s, want] of [[0.042, "42 ms"], [9.96, "10.0 s"], [61, "1 min 01 s"], [3723, "1 h 02 min"]]) assert.equal(plain(l.span(s)), want);
  assert.equal(l.short(NaN), "–");
});

test("who saw a fault is named without saying twice that it was seen", () => {
  assert.equal(l.witness("seen by n3 at 10:28"), "n3 at 10:28");
  assert.equal(l.witness("no echo for 3s"), "no echo for 3s");
  assert.equal(l.witness(undefined), "");
});

test("times are UTC, and one that is not there is empty", () => {
  assert.equal(l.time("2026-11-21T18:04:05.678Z"), "18:04:05");
  assert.equal(l.exact("2026-11-21T18:04:05.678Z"), "18:04:05.678");
  assert.equal(l.day(undefined), "");
  assert.equal(l.between(undefined, "2026-11-21T18:04:05Z"), 0);
});

test("every state has a word, a mark and a kind", () => {
  const of = (c) => { const x = l.look(c); return `${x.text}/${x.kind}/${x.mark}`; };
  assert.equal(of({ state: "Running", included: true }), "Running/running/play");
  assert.equal(of({ state: "Ready", inBetween: "Starting", included: true }), "Starting/moving/dots");
  assert.equal(of({ state: "Ready", inError: true, included: true }), "Error/error/cross");
  assert.equal(of({ state: "Running", included: false }), "Excluded/out/bar");
  assert.equal(of({ state: "Offline", included: false, spare: true }), "Spare/off/dash");
  assert.equal(of(undefined), "unknown/off/dash");
  const seen = new Set(["Running", "Paused", "Ready", "NotReady", "Offline", "Error"].map((state) => l.look({ state, included: true }).mark));
  assert.equal(seen.size, 6);
  assert.equal(l.verdict({ verdict: "VERDICT_ABORTED" }).text, "ABORTED");
  assert.equal(l.verdict({}).text, "goes on");
});

const start = { name: "start", via: "Starting", to: "Running", allowedIn: ["Ready"] };
const status = (over) => ({ root: { state: "Ready" }, allowed: ["start"], owner: {}, you: { name: "alice", role: "ROLE_OPERATOR" }, ...over });

test("a forbidden command says why", () => {
  assert.equal(l.hindrance(start, status()), "");
  assert.match(l.hindrance(start, null), /not known yet/);
  assert.match(l.hindrance(start, status({ you: { name: "vera", role: "ROLE_VIEWER" } })), /viewer/);
  assert.match(l.hindrance(start, status({ owner: { name: "bob" } })), /^bob has control/);
  assert.equal(l.hindrance(start, status({ owner: { name: "alice" } })), "");
  assert.equal(l.hindrance(start, status({ root: { state: "NotReady" }, allowed: [] })), "Not in NotReady: it is allowed in Ready.");
  assert.match(l.hindrance(start, status({ root: { state: "Running" } })), /Running already/);
  assert.match(l.hindrance(start, status({ root: { state: "Ready", inBetween: "Starting" } })), /starting already/);
});

test("the next command is the one that brings the partition on", () => {
  const fsm = { commands: [start, { name: "pause", via: "Pausing", to: "Paused" }, { name: "stop", via: "Stopping", to: "Ready", destructive: true }] };
  assert.equal(l.next(fsm, status()), "start");
  assert.equal(l.next(fsm, status({ root: { state: "Running" }, allowed: ["start", "pause", "stop"] })), "");
});

test("commands about a node are found by their argument", () => {
  const fsm = { commands: [{ name: "exclude", arguments: [{ name: "node", type: "node", required: true }] }, { name: "load", arguments: [{ name: "c", type: "yaml" }] }, { name: "stop" }] };
  assert.deepEqual(l.pointed(fsm).map((c) => c.name), ["exclude"]);
});

test("arguments are looked at before they are sent", () => {
  const bad = (type, v, required) => l.argumentFault({ name: "x", type, required }, v) !== "";
  assert.deepEqual([bad("uint", "12"), bad("uint", "-1"), bad("duration", "1h30m"), bad("duration", "30"), bad("string", "", true), bad("string", ""), bad("settings", "a=1\nb.c = 2"), bad("settings", "a=1\nb")], [false, true, false, true, true, false, false, true]);
});

test("an error of the API becomes sentences, each once", () => {
  assert.deepEqual(l.failure({ message: "start is refused: the state is NotReady", details: [{ violations: [{ description: "the state is NotReady" }] }, { fieldViolations: [{ field: "slots", description: "too few" }] }] }, 400),
    ["start is refused: the state is NotReady", "slots: too few"]);
  assert.deepEqual(l.failure(null, 502), ["The control answered 502."]);
});

const snapshot = (s, total, run = 1) => ({ at: new Date(1.7e12 + s * 1000).toISOString(), run, total });

test("sums become rates, and holes stay holes", () => {
  const h = new l.History(300);
  h.add(snapshot(0, { eventRateHz: 5, chunksResent: "100" }));
  h.add(snapshot(0.5, { eventRateHz: 6, chunksResent: "110" }));
  assert.equal(h.latest("resent"), 20);
  h.add(snapshot(0.5, { eventRateHz: 99 })); // the same moment again
  assert.equal(h.data[0].length, 2);
  h.add(snapshot(60, { eventRateHz: 7, chunksResent: "500" }));
  assert.deepEqual(h.data[1], [5, 6, null, 7]);
  assert.equal(h.latest("resent"), 0);
  h.add(snapshot(60.5, { chunksResent: "3" }, 2)); // another run counts from 0
  assert.equal(h.latest("resent"), 0);
  h.add(snapshot(400, {}, 2));
  assert.ok(h.data[0][0] >= 1.7e9 + 100 && h.data.every((c) => c.length === h.data[0].length));
});

test("a counter is explained by the list", () => {
  const list = [{ name: "ru.bytes_written", unit: "bytes", help: "bytes of writes" }, { name: "bu.strays.", help: "strays", byKind: true }];
  assert.equal(l.explained(list, "ru.bytes_written"), "bytes of writes (bytes)");
  assert.equal(l.explained(list, "bu.strays.no_part"), "strays");
  assert.equal(l.explained(list, "bu.strays"), "");
  assert.equal(l.explained([], "ru.bytes_written"), "");
});

test("a history lives over a reload, and nothing else does", () => {
  const h = new l.History(300);
  h.add(snapshot(0, { eventRateHz: 5 }));
  const at = 1.7e9 + 10;
  assert.deepEqual(new l.History(300).restored(h.saved(), at).data[1], [5]);
  for (const text of [null, "", "{", "{}", '{"data":[[1],[2]]}', '{"data":[[1],[],[],[],[]],"last":{"t":1700000000}}']) assert.deepEqual(new l.History(300).restored(text, at).data[1], []);
  assert.deepEqual(new l.History(300).restored(h.saved(), at + 900).data[1], []);
  const former = { data: [[at], [5], [0], [0], [0], [0]], last: { t: at, values: [5, 0, 0, 0, 0] } }; // with incomplete events
  assert.deepEqual(new l.History(300).restored(JSON.stringify(former), at).data[1], []);
});

test("each event is kept once, and a new count is noticed", () => {
  const log = new l.Log(3);
  for (const number of ["1", "2", "2", "4", "5"]) log.add({ number });
  assert.deepEqual(log.events.map((e) => e.number), ["2", "4", "5"]);
  assert.equal(log.add({ number: "2" }), false);
  log.anew();
  assert.equal(log.add({ number: "2" }), true);
});

test("traffic is arranged by unit", () => {
  const m = l.matrix([{ ru: 1, bu: 10, bytesPerS: 5 }, { ru: 1, bu: 2, bytesPerS: 7, bytes: "9" }, { ru: 0, bu: 2 }]);
  assert.deepEqual([m.rus, m.bus, m.most, m.sum, m.at(1, 2).bytes, m.at(0, 10)], [[0, 1], [2, 10], 7, 12, 9, undefined]);
});

test("who held a phase is who sent last", () => {
  const step = (ru, phase, beginUs, sentUs, releasedUs, bu = 0) => ({ ru, phase: String(phase), bu, beginUs: String(beginUs), sentUs: String(sentUs), releasedUs: String(releasedUs) });
  const x = l.lanes([step(0, 1, 1000, 1100, 1300), step(1, 1, 1010, 1280, 1300), step(0, 2, 1300, -1, 1400, -1), step(1, 2, 1300, 1350, 1400), step(0, 3, 1400, 1450, 0)]);
  assert.deepEqual([x.rus, x.span, x.steps.length, x.held.get(1)], [[0, 1], 390, 4, { ru: 1, by: 180 }]);
  const early = l.lanes([step(0, 1, 1000, 1100, 1300), step(0, 2, 1300, 1900, 2000), step(1, 1, 1010, 1280, 1300)]); // unit 1 has told of phase 1 only
  assert.deepEqual([early.span, early.steps.length], [290, 2]);
  const apart = l.lanes([step(0, 1, 1000, 1100, 1300), step(1, 9, 5000, 5100, 5300)]);
  assert.deepEqual([apart.span, apart.steps.length], [4300, 2]);
  assert.deepEqual(l.lanes(undefined), { rus: [], steps: [], span: 0, held: new Map() });
  assert.deepEqual(l.holders([{ ru: 0, epochs: "1" }, { ru: 2, epochs: "3", byUsP50: "40" }]).map((h) => [h.ru, h.share]), [[2, 0.75], [0, 0.25]]);
  assert.deepEqual(l.holders([]), []);
});

test("axes have round numbers", () => {
  assert.deepEqual(drawing.ticks(950, 5), [0, 200, 400, 600, 800]);
  assert.deepEqual(drawing.ticks(0, 5), [0]);
});

test("a report becomes a table of what is not 0", () => {
  const c = l.counters('{"counters":[{"node":"n0","counters":{"a":0,"b":2}},{"node":"n1","counters":{"b":3}}],"scheduler":{"tokens":5}}');
  assert.deepEqual([c.nodes, c.rows, c.scheduler], [["n0", "n1"], [{ name: "b", values: [2, 3] }], [["tokens", 5]]]);
  for (const text of ["", "{", "null", undefined]) assert.deepEqual(l.counters(text).rows, []);
});

test("the log is filtered", () => {
  const e = { kind: "log", severity: "SEVERITY_WARNING", component: "n2", text: "a link is down" };
  assert.deepEqual([l.match(e, { logs: true }), l.match(e, {}), l.match(e, { logs: true, severity: "error" }), l.match(e, { logs: true, text: "LINK" }), l.match(e, { logs: true, kind: "state" })], [true, false, false, true, false]);
});

test("the timeline is drawn in lanes, and the pointer finds its steps", () => {
  const filled = [], marks = [];
  const context = new Proxy({}, { get: (o, name) => o[name] ?? ((...a) => { if (name === "fillRect") filled.push([context.fillStyle, ...a.map(Math.round)]); if (name === "lineTo") marks.push(a); }), set: (o, name, v) => { o[name] = v; return true; } });
  const canvas = { clientWidth: 154, style: { setProperty: (name, v) => { canvas.tall = v; } }, getContext: () => context, getBoundingClientRect: () => ({ left: 0, top: 0 }) };
  Object.assign(globalThis, { devicePixelRatio: 1, document: { documentElement: { dataset: { theme: "dark" } } }, getComputedStyle: () => ({ getPropertyValue: (name) => name }) });
  const steps = [{ ru: 3, bu: 0, begin: 0, sent: 40, released: 100 }, { ru: 7, bu: -1, begin: 0, sent: 0, released: 100 }];
  const lanes = { rus: [3, 7], span: 100, steps };
  drawing.drawPhases(canvas, lanes, (p) => p.ru === 3);
  assert.equal(canvas.tall, "84px");
  assert.deepEqual(filled, [["#4aa8e0", 86, 2, 60, 22], ["#4aa8e0", 46, 2, 40, 22], ["--soft", 46, 28, 100, 22]]);
  assert.deepEqual(marks.slice(0, 2), [[90, 1], [86, 7]]);
  assert.equal(drawing.phaseAt(canvas, lanes, { clientX: 60, clientY: 30 }), steps[1]);
  assert.equal(drawing.phaseAt(canvas, lanes, { clientX: 10, clientY: 30 }), undefined);
  drawing.drawPhases(canvas, { rus: [], steps: [], span: 0 });
  assert.equal(canvas.tall, "0px");
});

const told = (s, sources, run = 1) => ({ at: new Date(1.7e12 + s * 1000).toISOString(), run, sources });

test("the heat map has what grew in each column, and holes stay holes", () => {
  const m = new q.Heat(4, 5), [by, lack, size, age] = q.measures;
  assert.deepEqual(m.grid(by), { ids: [], rows: [], from: -15, step: 5, most: 0 });
  const x = (source, fragments, over) => ({ source, fragments: String(fragments), bytes: String(fragments * 10), used: String(fragments), missing: "0", ageUs: "500", ...over });
  m.add(told(0, [x(0, 100), x(1, 7)]));
  m.add(told(2, [x(0, 300), x(1, 7, { missing: "20", ageUs: "2000000" })]));
  m.add(told(2, [x(0, 999), x(1, 7)])); // the same moment again
  m.add(told(6, [x(0, 300), x(1, 7, { silent: true })])); // source 0 gave nothing
  m.add(told(15, [x(0, 800), x(1, 7)])); // after a gap
  m.add(told(17, [x(0, 900), x(1, 3)])); // source 1 counts anew
  const g = m.grid(by);
  assert.deepEqual([g.ids, g.from, g.most], [[0, 1], 1.7e9, 100]);
  assert.deepEqual(g.rows, [[100, 0, null, 50], [0, null, null, null]]);
  assert.deepEqual(m.grid(lack).rows, [[0, 0, null, 0], [1, null, null, null]]);
  assert.deepEqual(m.grid(size).rows[0], [10, null, null, 10]);
  assert.equal(m.grid(age).rows[1][0], 2e6);
  m.add(told(18, [x(0, 0)], 2)); // another run
  assert.deepEqual(m.grid(by).ids, [0]);
  for (const k of [[by, 50, 100, 0.5, "50.0 Hz"], [lack, 0.25, 1, 0.6, "25.0 % missing"], [size, 5, 10, 0.5, "5.00 B each"], [age, 1e7, 1e7, 1, "10.0 s old at most"]]) assert.deepEqual([Number(k[0].shade(k[1], k[2]).toFixed(6)), plain(k[0].write(k[1]))], [k[3], k[4]]);
  assert.deepEqual([lack.shade(0, 0), by.shade(0, 0), age.shade(500, 500)], [0, 0, 0]);
});

test("a source has a word and a mark", () => {
  const of = (x, alarms) => { const c = q.condition({ source: 1, fragments: "5", fragmentsPerS: 2, attached: "1", ...x }, alarms); return `${c.text}/${c.mark}`; };
  assert.deepEqual([of({}), of({ fragmentsPerS: 0 }), of({ fragments: "0" }), of({ gone: "1" }), of({ gone: "1", attached: "2" }), of({ silent: true })], ["gives/play", "quiet/ring", "nothing yet/ring", "gone/cross", "gives/play", "not told/dash"]);
  const behind = [{ rule: "source-behind", component: "source 1 (tcp:h:7)" }];
  assert.deepEqual([of({}, behind), of({ source: 11 }, behind)], ["behind/warn", "gives/play"]);
  assert.deepEqual([q.lacking({ missing: "0", used: "0" }), plain(q.lacking({ missing: "1", used: "3" }))], ["", "25.0 %"]);
});

test("the heat map is drawn in rows, and the pointer finds its cells", () => {
  const filled = [];
  const context = new Proxy({}, { get: (o, name) => o[name] ?? ((...a) => { if (name === "fillRect") filled.push([context.fillStyle, typeof context.globalAlpha === "number" ? Number(context.globalAlpha.toFixed(2)) : 1, ...a.map(Math.round)]); }), set: (o, name, v) => { o[name] = v; return true; } });
  const canvas = { clientWidth: 94, style: { setProperty: (name, v) => { canvas.tall = v; } }, getContext: () => context, getBoundingClientRect: () => ({ left: 0, top: 0 }) };
  Object.assign(globalThis, { devicePixelRatio: 1, document: { documentElement: { dataset: { theme: "dark" } } }, getComputedStyle: () => ({ getPropertyValue: (name) => name }) });
  const g = { ids: [3, 7], rows: [[1, 0], [null, 0.5]], from: 1000, step: 5, most: 1 };
  heat.drawHeat(canvas, g, q.measures[0]);
  assert.equal(canvas.tall, "64px");
  assert.deepEqual(filled, [["--grid", 1, 46, 1, 20, 21], ["--accent", 1, 46, 1, 20, 21], ["--grid", 1, 66, 1, 20, 21], ["--grid", 1, 66, 23, 20, 21], ["--accent", 0.54, 66, 23, 20, 21]]);
  assert.deepEqual(heat.heatAt(canvas, g, { clientX: 70, clientY: 30 }), { id: 7, at: 1005, v: 0.5 });
  assert.equal(heat.heatAt(canvas, g, { clientX: 50, clientY: 30 }), null);
  assert.equal(heat.heatAt(canvas, g, { clientX: 10, clientY: 5 }), null);
  heat.drawHeat(canvas, { ids: [], rows: [] }, q.measures[0]);
  assert.equal(canvas.tall, "0px");
});

const hex = (text) => Uint8Array.from(text.match(/[0-9a-f]{2}/gi) || [], (d) => parseInt(d, 16));

test("raw banks are read as the format has them", () => {
  const golden = readFileSync(new URL("../../../event/testdata/bank.hex", import.meta.url), "utf8").replace(/#.*/g, ""), one = hex(golden);
  assert.deepEqual(q.banks(one), { banks: [{ at: 0, type: 16, version: 7, source: -4091, size: 3 }], fault: "" });
  const two = Uint8Array.from([...one, ...hex("cbcb 0800 3f 01 0200")]);
  assert.deepEqual(q.banks(two).banks.map((b) => [b.at, b.type, b.size]), [[0, 16, 3], [12, 63, 0]]);
  assert.deepEqual(q.banks(two.subarray(12)), { banks: [{ at: 0, type: 63, version: 1, source: 2, size: 0 }], fault: "" });
  for (const [bytes, fault] of [["00", "no bank at byte 0"], ["cbcb 0700 10 00 0000", "the bank at byte 0 says it has 7 bytes"], ["cbcb 0900 10 00 0000 aa", "the bank at byte 0 says it has 9 bytes"]]) assert.deepEqual(q.banks(hex(bytes)), { banks: [], fault });
  assert.deepEqual(q.banks(new Uint8Array()), { banks: [], fault: "" });
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647);
  for (let i = 0; i < 3000; i++) { // whatever comes, the walk ends and stays within
    const x = Uint8Array.from({ length: random() % 60 }, () => random());
    for (let at = 0; at + 4 < x.length; at += 4 * (1 + (random() % 3))) x.set([0xcb, 0xcb, random() % 24, 0], at);
    for (const b of q.banks(x).banks) assert.ok(b.at + 8 + b.size <= x.length);
  }
});

test("bytes are written as hexdump does", () => {
  const x = Uint8Array.from({ length: 20 }, (_, i) => 60 + i);
  assert.equal(q.dump(x), "00000000  3c 3d 3e 3f 40 41 42 43  44 45 46 47 48 49 4a 4b  |<=>?@ABCDEFGHIJK|\n00000010  4c 4d 4e 4f                                       |LMNO|");
  assert.equal(q.dump(x, 20, 16).split("\n")[1], "… 4 bytes more");
  assert.equal(q.dump(new Uint8Array()), "");
});

test("an event of the tap is made ready", () => {
  const names = { 63: "VP", 240: "Container" }, bank = Buffer.from(hex("cbcb 0800 3f 01 0200")).toString("base64");
  const e = q.sample({ event: "18446744073709551615", run: 7, mep: "3", attempt: 2, builder: "n1", fragments: [{ source: 0, type: 63, version: 1, size: 3, data: "AQID" }, { source: 1, type: 92, size: 0, data: "" }, { source: 2, type: 240, size: 8, data: bank }, { source: 3, type: 200, size: 9 }] }, names);
  assert.deepEqual([e.event, e.size, e.missing, e.largest, e.attempt], ["18446744073709551615", 20, 1, 9, 2]);
  assert.deepEqual(e.fragments.map((f) => [f.name, f.missing, f.data && f.data.length, f.banks.map((b) => b.name)]), [["VP", false, 3, []], ["missing", true, 0, []], ["Container", false, 8, ["VP"]], ["type 200", false, null, []]]);
  assert.deepEqual(q.sample({}, {}).fragments, []);
  assert.equal(q.wanted({ sources: "0-3, 7", types: "", maxSize: 9 }), "/v1/tap?rate=1&data=true&sources=0-3&sources=7&maxSize=9");
  assert.equal(q.wanted({ types: "VP 63" }), "/v1/tap?rate=1&data=true&types=VP&types=63");
});

const judging = (counters, more) => ({ at: "2026-11-24T10:00:00Z", run: 3, nodes: [{ name: "n0", counters: {} }, { name: "n1", buIndex: 1, counters, ...more }] });

test("what the decision unit told is summed, and how long ago is said", () => {
  assert.equal(dec.decided(null), null);
  assert.equal(dec.decided(judging({})), null);
  const d = dec.decided(judging({ "dec.events_triggered": "100", "dec.decisions_accepted": "5", "dec.decisions_rejected": "90", "dec.decisions_timed_out": 2, "dec.timed_out": 1, "dec.overrun": 1, "dec.pending": 3, "dec.depth": 1820, "dec.results_stranger": 2, "dec.results_broken": 1 }, { reportAgeMs: 4000 }));
  assert.deepEqual([d.node, d.decisions, d.without, d.impossible, d.pending, d.depth, d.silent], ["n1", 97, 2, 3, 3, 1820, 4]);
});

test("the rate of decisions is of the last two seconds, and of one run", () => {
  const pace = new dec.Pace(), add = (at, decisions, run = 1) => pace.add({ at, decisions, run });
  assert.equal(add(0, 0), null);
  assert.equal(add(0.05, 10), null); // the same report
  assert.equal(add(1, 1000), 1000);
  for (let i = 2; i <= 10; i++) add(i, 1000 + (i - 1) * 500);
  assert.equal(add(11, 6000), 500);
  assert.equal(add(12, 100, 2), null);
  assert.equal(add(13, 300, 2), 200);
});

test("each builder unit with a filter has a row", () => {
  assert.deepEqual(dec.filters(judging({})), []);
  const [r] = dec.filters(judging({ "bu.filter_accepted": 1, "bu.filter_rejected": 3, "bu.filter_us": 800 }));
  assert.deepEqual([r.node, r.judged, r.mean], ["n1", 4, 200]);
  assert.equal(dec.filters(judging({ "bu.filter_accepted": 0 }))[0].mean, null);
});

test("parts of the time have one axis, and what is longer than a result can say is marked", () => {
  assert.deepEqual(dec.parts({ latencyParts: [] }), { rows: [], ticks: [] });
  const of = (name, ...bars) => ({ name, latency: { p50Us: "20", p99Us: "65535", p999Us: "65535", maxUs: "65535", bars: bars.map(([fromUs, toUs, count]) => ({ fromUs, toUs, count })) } });
  const p = dec.parts({ latencyParts: [of("judged", [10, 20, 1], [50000, 70000, 4]), of("decision", [1, 2, 1]), of("strange", [1, 2, 1]), of("filter")] });
  assert.deepEqual(p.rows.map((r) => r.name), ["decision", "judged"]);
  assert.deepEqual(p.ticks.map((t) => t.us), [1, 10, 100, 1000, 10000, 100000]);
  assert.deepEqual(p.rows[1].times.map((t) => t.more), [false, true, true, true]);
  assert.deepEqual(p.rows[0].times.map((t) => t.more), [false, false, false, false]);
  assert.equal(p.rows[1].bars[1].share, 1);
  for (const r of p.rows) for (const b of r.bars) assert.ok(b.x >= 0 && b.w > 0 && b.x + b.w <= 1.001);
});

test("samples become rates between neighbours, and levels stay", async () => {
  const { Samples, asked } = await load("../web/js/samples.js");
  assert.equal(asked({ node: "n1", interval: 1000, each: true }), "/v1/sample?node=n1&intervalUs=1000&each=true");
  const s = new Samples();
  s.take({ columns: [{ name: "link.bytes_sent", of: "n0", unit: "bytes", kind: "counter" }, { name: "link.tx_used", kind: "level" }], atUs: ["1000000", "1500000"], values: ["100", "3", "600", "5"], late: "2" });
  s.take({ atUs: ["2000000"], values: ["600", "4"], missed: "1" });
  s.take({ atUs: ["2500000"], values: ["600"], missed: "1" }); // torn: not used
  assert.deepEqual([s.at, s.of("link.bytes_sent")[0].data, s.of("link.tx_used")[0].data, s.counters], [[1.5, 2], [1000, 0], [5, 4], ["link.bytes_sent", "link.tx_used"]]);
  assert.deepEqual([s.missed, s.late], [1, 0]);
  for (let i = 0; i < 3000; i++) s.take({ atUs: [String(3e6 + i * 1000)], values: [String(700 + i), "1"] });
  assert.equal(s.at.length, 2048);
});

test("an event is posted with its boards alone, and drawn in windows that hold what was found", () => {
  const e = { run: 3, event: "70000", fragments: [{ source: 1, type: 8, data: Uint8Array.of(1, 2, 3) }, { source: 2, type: 92, data: Uint8Array.of() }, { source: 3, type: 63, data: Uint8Array.of(9) }] };
  assert.ok(shown.drawable(e));
  assert.ok(!shown.drawable({ fragments: e.fragments.slice(1) }) && !shown.drawable(null));
  assert.deepEqual(shown.posted(e), { run: 3, event: 70000, fragments: [{ source: 1, type: 8, data: "AQID" }] });
  const a = { planes: [[-100, 8, 40], [700, -8, -40]], primaries: [{ x: 0.1, y: 0, z: 3 }], secondary: { x: -0.9, y: 0, z: 12 } };
  assert.deepEqual(shown.whole(a), { z0: -115, z1: 715, r0: -43.2, r1: 43.2 });
  const w = shown.close(a);
  assert.ok(w.z0 < 3 && w.z1 > 12 && w.r1 > 0.9 && w.r0 === -w.r1);
  assert.equal(shown.radius(a.secondary), -0.9);
  assert.equal(shown.close({ ...a, primaries: [] }), null);
  assert.deepEqual(shown.ticks(-115, 715, 5), [0, 200, 400, 600]);
});

test("efficiency counts each whole event once, and only where the truth is known", () => {
  const t = new shown.Tally();
  t.add("1 1", { accepted: true });
  t.add("1 2", { accepted: true, lacking: 3, truth: { displaced: true } });
  t.add("1 3", { accepted: true, truth: { displaced: true } });
  t.add("1 3", { accepted: true, truth: { displaced: true } });
  assert.deepEqual(t.add("1 4", { accepted: false, truth: { displaced: false } }), { with: 1, withAccepted: 1, without: 1, withoutAccepted: 0 });
});

test("registers have marks, what was counted since the clear, and free slots of this run over time", () => {
  const at = (run, i, free) => ({
    run, at: `t${run} ${i}`, scheduler: {
      counters: { skips: "7", cycles: "0", built: "9" }, refused: { term: "2" }, cleared: { user: "alice", counters: { built: "4" } },
      queues: [{ name: "ready", depth: { now: "1", max: "8", capacity: "8", crossed: ["3", "2"], full: "1", usage: 15 } }, { name: "again" }],
      groups: [{ nodes: ["n1", "n2"], free: String(free), slots: "4" }],
    },
  });
  const s = at(3, 0, 4);
  assert.deepEqual(reg.queues(s), [
    { name: "ready", now: 1, most: 8, of: 8, crossed: [3, 2, 0, 0], full: 1, usage: "0xf", odd: true },
    { name: "again", now: 0, most: 0, of: 0, crossed: [0, 0, 0, 0], full: 0, usage: "0x0", odd: false },
  ]);
  assert.deepEqual(reg.counted(s), [{ name: "built", all: 9, since: 5 }, { name: "sessions refused: term", all: 2, since: null }, { name: "skips", all: 7, since: 7 }]);
  assert.deepEqual(reg.queues({}), []);
  assert.deepEqual(reg.counted(null), []);
  const free = new reg.Free(3);
  free.add({ run: 3 }); // no scheduler yet
  [4, 1, 2, 3].forEach((n, i) => free.add(at(3, i, n)));
  free.add(at(3, 3, 0)); // the same snapshot
  assert.deepEqual(free.rows(at(3, 3, 3)), [{ name: "n1 n2", free: 3, slots: 4, least: 1, shares: [0.25, 0.5, 0.75] }]);
  free.add(at(4, 0, 2)); // another run
  assert.deepEqual(free.rows(at(4, 0, 2))[0].shares, [0.5]);
});

test("histograms of sources are read, compared by name and written for other programs", () => {
  const report = (name, bars) => JSON.stringify({ sources: [{ source: 1, name, fragments: 4, missing: 1, used: 4, size_bytes: { p50: 100, bars }, missing_by_time: { bin_ms: 2000, events: [50, 0, 100], missing: [0, 0, 25] } }] });
  const [mine] = of.readSources(report("tof, left", [{ from: 100, to: 103, n: 3 }, { from: 200, to: 207, n: 1 }])), others = of.readSources(report("tof, left", [{ from: 100, to: 103, n: 30 }, { from: 400, to: 415, n: 30 }]));
  assert.deepEqual([mine.name, mine.missing, mine.size_bytes.sum, mine.size_bytes.p50, mine.interval_us], ["tof, left", 1, 4, 100, null]);
  assert.equal(of.likeness(mine.size_bytes, of.find(others, mine).size_bytes), 0.5);
  assert.equal(of.find(of.readSources(report("camera", [])), mine), null);
  assert.equal(of.likeness(mine.size_bytes, null), null);
  const range = of.span(mine.size_bytes, null), drawn = of.steps(mine.size_bytes, range);
  assert.deepEqual([drawn[0].x, drawn[0].height, drawn[1].height], [0, 1, 1 / 3]);
  assert.ok(drawn[1].x + drawn[1].width <= 1.0001 && drawn[1].x > drawn[0].x + drawn[0].width);
  assert.equal(of.csv(7, [mine]), 'run,source,name,quantity,from,to,count\n7,1,"tof, left",size_bytes,100,103,3\n7,1,"tof, left",size_bytes,200,207,1\n7,1,"tof, left",missing_s,4,6,25\n');
  assert.deepEqual(mine.history[2], { from: 4, to: 6, events: 100, missing: 25 });
  assert.deepEqual(mine.history.map((c) => of.shadeOf(c).toFixed(2)), ["0.00", "0.00", "0.60"]);
  assert.deepEqual([of.readSources("{"), of.readSources(""), of.span(null)], [[], [], null]);
});
