// The runs on record, and the page of one.
import { between, bytes, count, counters, day, ending, exact, explained, joined, num, rate, severity, short, span, verdict } from "./logic.js";
import { button, card, cell, chip, h, keyed, table, text, toast } from "./dom.js";
import { told } from "./commands.js";
import { call, store } from "./api.js";
import { distributions } from "./view_distributions.js";

const columns = [
  { title: "Run", class: "n" }, { title: "Verdict" }, { title: "Started (UTC)", class: "whole" }, { title: "Lasted", class: "n" }, { title: "Events", class: "n" },
  { title: "Rate", class: "n" }, { title: "Goodput", class: "n" }, { title: "Nodes", class: "n" }, { title: "How it ended", class: "words" }, { title: "By", class: "whole" },
];

const how = (r) => (r.cause && r.cause.what ? `${r.cause.component ? r.cause.component + ": " : ""}${r.cause.what}` : ending(r) || "it goes on");
const gbps = (v) => (num(v) ? `${short(num(v))}\u202fGbit/s` : "–");
const note = (r) => [r.scan && `scan ${r.scan}`, r.remark].filter(Boolean).join(" · ");

export function runs(root) {
  const t = table(columns, "Runs"), empty = h("p", { class: "empty-state" }, "No run is on record yet. Load a configuration, configure, and start one."), words = h("p", { class: "note" });
  const older = button("Older runs", () => load(true));
  let all = [], more = false, shown = "";
  t.wide.classList.add("cards");
  root.append(h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Runs"), words), t.wide, empty, h("div", { class: "row" }, older));
  empty.hidden = true;
  older.hidden = true;
  const draw = () => {
    empty.hidden = all.length > 0;
    t.wide.hidden = !all.length;
    older.hidden = !more;
    text(words, all.length ? `${all.length}${more ? " newest" : ""}. Press a number for its record.` : "");
    keyed(t.body, all, (r) => `${r.number} ${r.verdict} ${r.end} ${r.verdictWhy}`, (r) => {
      const link = h("a", { href: `#/runs/${r.number}`, "aria-label": `Run ${r.number}` }, String(r.number));
      const of = [link, chip(verdict(r)), day(r.startBegun), num(r.durationS) ? span(r.durationS) : span(between(r.startDone, r.stopBegun)), count(r.eventsBuilt), num(r.eventRateHz) ? joined(rate(r.eventRateHz)) : "–", gbps(r.goodputGbps), String((r.nodes || []).length), null, r.startedBy];
      const tr = h("tr", {}, columns.map((c, i) => cell(c, of[i] === null ? null : of[i])));
      tr.children[8].append(how(r), r.verdictWhy ? h("small", {}, r.verdictWhy) : "", note(r) ? h("small", {}, note(r)) : "");
      tr.addEventListener("click", (e) => e.target.closest("a, button") || String(getSelection()) || (location.hash = `#/runs/${r.number}`));
      return tr;
    });
  };
  const load = async (on) => {
    try {
      const answer = await call("GET", `/v1/runs?limit=50${on && all.length ? `&before=${all[all.length - 1].number}` : ""}`);
      const got = answer.runs || [];
      if (on) all = [...all, ...got];
      else {
        const have = new Set(got.map((r) => r.number));
        all = [...got, ...all.filter((r) => !have.has(r.number))];
      }
      if (on || !shown) more = Boolean(answer.more);
      shown = "yes";
      draw();
    } catch (e) {
      if (on || !all.length) toast(told(e), true);
    }
  };
  // A run that begins or ends changes the list, and so does the control that came back.
  let run = "";
  const off = store.on("status", () => {
    const now = `${store.status.run} ${store.status.root && store.status.root.state}`;
    if (now === run) return;
    run = now;
    load(false);
  });
  load(false);
  return off;
}

const pair = (k, v) => (v === null || v === undefined || v === "" ? null : h("div", {}, h("dt", {}, k), h("dd", {}, v)));

// fourTimes draws the life of a run: asked for, running, end asked for, at rest.
function fourTimes(r) {
  const of = [["Start asked for", r.startBegun], ["All running", r.startDone], [r.end === "fault" ? "A fault struck" : "End asked for", r.stopBegun], [r.endFound ? "Found at rest" : "All at rest", r.stopDone]];
  return h("ol", { class: "times" }, of.map(([name, at], i) => h("li", { class: at ? "" : "missing" }, h("span", { class: "dot" }), h("b", {}, name), h("time", { datetime: at || undefined }, at ? exact(at) : "–"), h("small", {}, i && at && of[i - 1][1] ? `after ${span(between(of[i - 1][1], at))}` : at && !i ? day(at).slice(0, 10) : ""))));
}

function accounts(r) {
  const columns = [{ title: "" }, { title: "Account", class: "words" }, { title: "Left", class: "n" }, { title: "Right", class: "n" }], t = table(columns, "Accounts");
  for (const a of r.accounts || []) {
    const row = [chip(a.ok ? { text: "equal", kind: "running", mark: "tick" } : { text: "differs", kind: "error", mark: "cross" }, "tiny"), a.name, count(a.left), count(a.right)];
    t.body.append(h("tr", { class: a.ok ? "" : "bad" }, columns.map((c, i) => cell(c, row[i]))));
  }
  t.table.classList.add("accounts");
  return t.wide;
}

function counterTable(r) {
  const all = counters(r.reportJson);
  if (!all.rows.length) return null;
  const columns = [{ title: "Counter" }, ...all.nodes.map((n) => ({ title: n, class: "n" }))], t = table(columns, "Counters of the nodes");
  const filter = h("input", { type: "search", placeholder: "ru. or resent", "aria-label": "Only counters whose name has this in it" });
  const draw = () => keyed(t.body, all.rows.filter((c) => c.name.includes(filter.value.trim())), (c) => c.name, (c) => h("tr", { title: explained(store.counters, c.name) }, h("th", { scope: "row" }, c.name), c.values.map((v) => h("td", { class: "n" }, count(v)))));
  filter.addEventListener("input", draw);
  draw();
  t.wide.classList.add("tall", "sticky");
  return h("section", { class: "card full" }, h("div", { class: "head" }, h("h2", {}, "Counters"), filter), t.wide);
}

function events(r) {
  const list = h("ol", { class: "events" }, (r.events || []).map((e) => {
    const l = severity(e.severity);
    return h("li", { "data-kind": l.kind }, h("time", { datetime: e.at, title: `event ${e.number}` }, exact(e.at)), chip(l, "tiny"), h("span", { class: "about" }, e.component), h("span", { class: "words" }, e.text, e.user && !e.text.includes(e.user) ? h("small", {}, ` by ${e.user}`) : null));
  }));
  return (r.events || []).length ? list : h("p", { class: "note" }, "None were kept.");
}

function show(root, r) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(r.configuration);
      toast("The configuration is on the clipboard.");
    } catch {
      toast("The browser does not let this page write to the clipboard.", true);
    }
  }, { class: "small" });
  const parts = [
    h("p", { class: "path" }, h("a", { href: "#/runs" }, "← All runs")),
    h("div", { class: "title" }, h("h1", { tabindex: "-1" }, `Run ${r.number}`), chip(verdict(r), "large"), h("span", { class: "note grow" }, note(r)), h("a", { class: "button", href: `/v1/runs/${r.number}.json`, download: `run-${r.number}.json` }, "Export as JSON")),
    r.cause && r.cause.what ? h("section", { class: "causebox", "aria-label": "Cause", "data-kind": verdict(r).kind }, h("h2", {}, `First fault: ${r.cause.component || "unknown"}`), h("p", {}, r.cause.what), h("dl", {}, pair("Seen by", r.cause.evidence), pair("At", r.cause.at ? `${day(r.cause.at)} UTC` : ""), pair("Code", r.cause.code ? h("code", {}, r.cause.code) : ""))) : null,
    r.verdictWhy ? h("p", { class: "why-verdict", "data-kind": verdict(r).kind }, r.verdictWhy) : null,
    h("div", { class: "grid" },
      h("section", { class: "card full" }, h("div", { class: "head" }, h("h2", {}, "Four times"), h("p", { class: "note" }, "UTC")), fourTimes(r)),
      h("div", { class: "halfbox" }, card("What came out", null, h("dl", { class: "facts" }, facts(r))), card("Events of the run", null, events(r)),
        h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Configuration"), copy), h("p", { class: "note hash" }, `SHA-256 ${r.configurationHash || "–"}`), h("pre", { class: "short", tabindex: "0", "aria-label": "Configuration" }, r.configuration || "none"))),
      h("div", { class: "halfbox" }, card("Accounts", "two sums, counted apart, that must be equal", (r.accounts || []).length ? accounts(r) : h("p", { class: "note" }, "They are closed when the run is over."))),
      distributions(r), counterTable(r)),
  ];
  root.replaceChildren(...parts.filter(Boolean));
}

const byName = (of) => Object.entries(of || {}).sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));

// facts are what the record says in one figure each. Versions that are the same are told once.
function facts(r) {
  const versions = Map.groupBy(byName(r.versions), ([, v]) => v);
  const roles = byName(r.roles).map(([name, role]) => `${name} ${role}`);
  return [
    pair("Events built", count(r.eventsBuilt)), pair("Data", joined(bytes(r.bytesBuilt))), pair("Goodput", gbps(r.goodputGbps)), pair("Event rate", num(r.eventRateHz) ? joined(rate(r.eventRateHz)) : "–"),
    pair("First token to last MEP", num(r.durationS) ? span(r.durationS) : "–"), pair("Ended", ending(r) || "not yet"), pair("Started by", r.startedBy), pair("Stopped by", r.stoppedBy), pair("Nodes", (r.nodes || []).join(", ")), ...roles.length ? [pair("Roles", roles.join(", "))] : [],
    ...[...versions].map(([v, of]) => pair(versions.size > 1 ? `Version of ${of.map(([name]) => name).join(", ")}` : "Version", v)),
  ];
}

export function run(root, number) {
  const box = h("div");
  box.append(h("p", { class: "note" }, "Reading the record …"));
  root.append(box);
  let over = false, gone = false;
  const load = async () => {
    try {
      const r = await call("GET", `/v1/runs/${number}`);
      if (gone) return;
      over = Boolean(r.stopDone) && r.verdict !== "VERDICT_UNSPECIFIED";
      show(box, r);
    } catch (e) {
      if (!gone && !over) box.replaceChildren(h("p", { class: "path" }, h("a", { href: "#/runs" }, "← All runs")), h("h1", { tabindex: "-1" }, `Run ${number}`), h("p", { class: "empty-state" }, told(e).join(" ")));
    }
  };
  let last = "";
  const off = store.on("status", () => {
    const now = `${store.status.change} ${store.status.root && store.status.root.state}`;
    if (!over && now !== last) load();
    last = now;
  });
  load();
  return () => {
    gone = true;
    off();
  };
}
