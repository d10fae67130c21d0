// The screen that is left open: alarms, curves, the tree, who sends to whom, who waits for whom.
import { drawn, every, exact, holders, look, micros, num, severity, time, witness } from "./logic.js";
import { attr, card, cell, chip, h, keyed, setChip, table, text } from "./dom.js";
import { decisions } from "./view_decisions.js";
import { curve, histogram, phases, traffic } from "./charts.js";
import { registers } from "./view_registers.js";
import { acts } from "./commands.js";
import { store } from "./api.js";

// alarms lists what is wrong, with what to do about it; all of it, or what is of some kind.
export function alarms(of = () => true) {
  const list = h("ul", { class: "alarms" }), root = h("section", { class: "alarmbox", "aria-label": "Alarms" }, list);
  return {
    root,
    update() {
      const all = ((store.snapshot && store.snapshot.alarms) || []).filter(of);
      root.hidden = !all.length;
      keyed(list, all, (a) => `${a.rule} ${a.component}`, () => {
        const e = h("li", { class: "alarm" }), c = chip(severity("SEVERITY_WARNING"));
        e.parts = { c, what: h("p", { class: "what" }), advice: h("p", { class: "advice" }), since: h("p", { class: "note" }) };
        e.append(c, h("div", {}, e.parts.what, e.parts.advice), e.parts.since);
        return e;
      }, (e, a) => {
        setChip(e.parts.c, severity(a.severity));
        attr(e, "data-kind", severity(a.severity).kind);
        text(e.parts.what, (a.component && !a.what.includes(a.component) ? `${a.component}: ` : "") + a.what);
        text(e.parts.advice, a.advice);
        text(e.parts.since, a.since ? `since ${time(a.since)}` : "");
      });
    },
  };
}

const initials = (c) => {
  const n = /\d+$/.exec(c.name);
  return c.kind === "readout" ? `RU${n ? " " + n[0] : ""}` : c.kind === "builder" ? `BU${n ? " " + n[0] : ""}` : c.name;
};

// tree is the partition: a row for each part, units beside their node.
function tree() {
  const list = h("ul", { class: "tree" });
  const make = () => {
    const e = h("li", { class: "part" }), state = chip(look(null));
    e.parts = { name: h("span", { class: "name" }), state, flag: h("span", { class: "flag" }, "DEGRADED"), units: h("span", { class: "units" }), acts: h("span", { class: "acts" }), cause: h("p", { class: "cause" }) };
    e.append(h("div", { class: "line" }, e.parts.name, e.parts.state, e.parts.flag, e.parts.units, e.parts.acts), e.parts.cause);
    return e;
  };
  const unit = () => {
    const e = h("span", { class: "unit" });
    e.state = chip(look(null), "tiny");
    e.name = h("span");
    e.append(e.name, e.state);
    return e;
  };
  return {
    root: list,
    update() {
      const s = store.status;
      if (!s || !s.root) return;
      const rows = every(s.root).filter(({ c }) => c.kind !== "readout" && c.kind !== "builder");
      keyed(list, rows, (r) => r.id, make, (e, { c, depth }) => {
        const p = e.parts, units = (c.children || []).filter((u) => u.kind === "readout" || u.kind === "builder");
        attr(e, "data-depth", depth);
        text(p.name, c.kind === "tagnet" && c.name === "tagnet" ? "TagNet" : c.name);
        attr(p.name, "title", [c.kind, c.loss && `loss: ${c.loss}`, ...Object.entries(c.facts || {}).map(([k, v]) => `${k}: ${v}`)].filter(Boolean).join("\n"));
        setChip(p.state, look(c));
        p.flag.hidden = !c.degraded;
        keyed(p.units, units, (u) => u.name, unit, (u, of) => {
          const l = look(of);
          text(u.name, initials(of));
          u.classList.toggle("same", l.text === look(c).text && !of.degraded); // its mark is enough, then
          setChip(u.state, of.degraded ? { ...l, kind: "degraded", mark: "warn", text: `${l.text}, degraded` } : l);
          attr(u, "title", `${of.name}: ${l.text}${of.loss ? `, loss: ${of.loss}` : ""}`);
        });
        acts(p.acts, c.kind === "node" ? c : null);
        const cause = c.cause && c.cause.what ? c.cause : null;
        p.cause.hidden = !cause || depth === 0;
        text(p.cause, cause ? `${cause.what}${cause.evidence ? ` – seen by: ${witness(cause.evidence)}` : ""}` : "");
      });
    },
  };
}

// events shows the newest.
export function events(most) {
  const list = h("ol", { class: "events" });
  return {
    root: list,
    update() {
      const all = store.log.events.filter((e) => e.kind !== "log").slice(-most).reverse();
      keyed(list, all.length ? all : [{ number: "none" }], (e) => `${e.number} ${e.at}`, (e) => {
        if (e.number === "none") return h("li", { class: "note" }, "Nothing has happened yet.");
        const l = severity(e.severity);
        return h("li", { "data-kind": l.kind }, h("time", { datetime: e.at, title: `${exact(e.at)} UTC, event ${e.number}` }, time(e.at)), chip(l, "tiny"), h("span", { class: "about" }, e.component), h("span", { class: "words" }, e.text, e.user && !e.text.includes(e.user) ? h("small", {}, ` by ${e.user}`) : null));
      });
    },
  };
}

// holding says who held the phases.
function holding() {
  const columns = [{ title: "Unit" }, { title: "Held", class: "n" }, { title: "by, median", class: "n" }, { title: "by, 99 %", class: "n" }];
  const t = table(columns, "Who held the phases"), root = h("div", { class: "holders" }, h("h3", {}, "Who held the phases"), t.wide);
  return {
    root,
    update(list) {
      const all = holders(list);
      root.hidden = !all.length;
      keyed(t.body, all.slice(0, 8), (o) => o.ru, () => h("tr", {}, columns.map((c) => cell(c))), (tr, o) => {
        text(tr.children[0], `RU ${o.ru}`);
        text(tr.children[1], `${Math.round(o.share * 100)} %`);
        tr.children[1].style.setProperty("--share", o.share.toFixed(3));
        tr.children[1].classList.add("share");
        text(tr.children[2], micros(o.p50));
        text(tr.children[3], micros(o.p99));
      });
    },
  };
}

export function overview(root) {
  const curves = drawn.map((d) => [curve(d), d.words]);
  const wrong = alarms(), parts = tree(), matrix = traffic(), timeline = phases(), held = holding(), latency = histogram(), judged = decisions(), queued = registers(), news = events(12), more = h("a", { href: "#/log" }, "The whole log");
  root.append(h("h1", { class: "unseen", tabindex: "-1" }, "Overview"), wrong.root,
    h("div", { class: "grid" },
      h("div", { class: "curves" }, curves.map(([c]) => c.root)),
      h("div", { class: "side" }, card("Partition", null, parts.root)),
      h("section", { class: "card half" }, h("div", { class: "head" }, h("h2", {}, "Traffic")), matrix.root),
      h("section", { class: "card half" }, h("div", { class: "head" }, h("h2", {}, "Latency"), h("p", { class: "note" }, "from token to complete MEP")), latency.root),
      judged.root, queued.root,
      h("section", { class: "card full" }, h("div", { class: "head" }, h("h2", {}, "Phases")), h("div", { class: "phaserow" }, timeline.root, held.root)),
      h("section", { class: "card full" }, h("div", { class: "head" }, h("h2", {}, "What happened"), more), news.root)));
  let asked = 0;
  const draw = () => {
    asked = 0;
    const s = store.snapshot, f = (s && s.total) || {};
    wrong.update();
    for (const [c, words] of curves) c.update(store.history, s && num(s.run) ? words(f) : "");
    if (!s) return;
    matrix.update(s.traffic);
    timeline.update(s.timeline);
    held.update(s.holders);
    latency.update(s.latency);
    judged.update(s);
    queued.update(s);
  };
  const soon = () => asked || (asked = requestAnimationFrame(draw));
  const off = [store.on("snapshot", soon), store.on("status", parts.update), store.on("connection", parts.update), store.on("events", news.update), store.on("theme", () => {
    curves.forEach(([c]) => c.recolour());
    timeline.recolour();
  })];
  matrix.update([]);
  timeline.update([]);
  latency.update(null);
  held.update([]);
  soon();
  parts.update();
  news.update();
  return () => {
    off.forEach((f) => f());
    cancelAnimationFrame(asked);
    curves.forEach(([c]) => c.end());
    timeline.end();
  };
}
