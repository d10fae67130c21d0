// The scheduler's registers, as ringlet ctl registers prints them: a card that is opened by who wants it.
import { count, day, explained } from "./logic.js";
import { Free, counted, marks, queues } from "./registers.js";
import { attr, button, cell, h, keyed, s, table, text, toast } from "./dom.js";
import { ask, forbids } from "./commands.js";
import { store } from "./api.js";

const queueColumns = [{ title: "Queue" }, { title: "Now", class: "n" }, { title: "Most", class: "n", help: "since the begin of the run or the last clear, as are the marks" }, { title: "Of", class: "n" },
  ...marks.map((title) => ({ title, class: "n", help: "how often it rose to this share" })), { title: "Full", class: "n", help: "how often it rose to its capacity" }, { title: "Usage", class: "n", help: "highest mark reached: 0x0, 0x1, 0x3, 0x7, 0xf" }];
const groupColumns = [{ title: "Builder units" }, { title: "Free", class: "n" }, { title: "Of", class: "n" }, { title: "Least", class: "n" }, { title: "The last 30 s", class: "bars" }];
const counterColumns = [{ title: "Counter" }, { title: "In all", class: "n" }, { title: "Since the clear", class: "n" }];

const rowOf = (columns) => () => h("tr", {}, columns.map((c) => cell(c)));
const cells = (tr, values) => values.forEach((v, i) => text(tr.children[i], v));

// clear is the button of the command that begins the marks anew.
function clear() {
  const b = button("Clear the marks", () => {
    const no = b.offered ? forbids(b.offered) : "The control does not know this command.";
    if (no) toast(`Clear the marks: ${no}`, true);
    else ask(b.offered);
  }, { class: "small", "data-clear": "registers" });
  return {
    root: b,
    update() {
      b.offered = ((store.fsm && store.fsm.commands) || []).find((c) => c.name === "clear-registers");
      const no = b.offered ? forbids(b.offered) : "";
      attr(b, "aria-disabled", no || !b.offered ? "true" : null);
      attr(b, "title", no || (b.offered && b.offered.help));
    },
  };
}

export function registers() {
  const facts = h("dl", { class: "facts" }), act = clear(), q = table(queueColumns, "Queues of the scheduler"), g = table(groupColumns, "Free slots"), c = table(counterColumns, "Counters of the scheduler");
  const box = h("details", { class: "registers" }, h("summary", {}, "Registers of the scheduler"), facts, h("div", { class: "row end" }, act.root),
    h("h3", {}, "Queues"), q.wide, h("h3", {}, "Free slots"), g.wide, h("h3", {}, "Counters"), c.wide);
  const root = h("section", { class: "card full decisions", hidden: true }, box), free = new Free();
  let shown = null;
  const draw = () => {
    const snapshot = shown, r = snapshot && snapshot.scheduler;
    root.hidden = !r;
    if (!r || !box.open) return;
    act.update();
    const pairs = [["State", r.state], ["Waits for", r.waitingFor || "nothing"], ["Mode", `${r.mode || "–"}, where a builder unit has no free slot`], ["Trigger", r.trigger || "none: events come at their rate"], ["On", r.node || "the control"],
      ["Marks cleared", r.cleared ? `by ${r.cleared.user} at ${day(r.cleared.at)}` : "never in this run"]];
    keyed(facts, pairs, ([k]) => k, ([k]) => h("div", {}, h("dt", {}, k), h("dd")), (e, [, v]) => text(e.lastChild, v));
    keyed(q.body, queues(snapshot), (x) => x.name, rowOf(queueColumns), (tr, x) => {
      cells(tr, [x.name, ...[x.now, x.most, x.of, ...x.crossed, x.full].map(count), x.usage]);
      tr.children[8].classList.toggle("odd", x.odd);
    });
    keyed(g.body, free.rows(snapshot), (x) => x.name, () => {
      const tr = rowOf(groupColumns)();
      tr.drawing = s("svg", { class: "strip", width: "100%", height: "28", role: "img" });
      tr.children[4].append(tr.drawing);
      return tr;
    }, (tr, x) => {
      cells(tr, [x.name, count(x.free), count(x.slots), count(x.least)]);
      attr(tr.drawing, "aria-label", `free slots of ${x.name}: ${x.free} of ${x.slots} now, ${x.least} at least`);
      tr.drawing.replaceChildren(...x.shares.map((v, i) => s("rect", { class: "bar", x: `${(100 * i) / free.most}%`, width: `${80 / free.most}%`, y: 28 - Math.max(1, 26 * v), height: Math.max(1, 26 * v) })));
    });
    keyed(c.body, counted(snapshot), (x) => x.name, rowOf(counterColumns), (tr, x) => {
      cells(tr, [x.name, count(x.all), x.since === null ? "–" : count(x.since)]);
      attr(tr, "title", explained(store.counters, x.name) || null);
    });
  };
  box.addEventListener("toggle", draw);
  return {
    root,
    update(snapshot) {
      shown = snapshot;
      free.add(snapshot);
      draw();
    },
  };
}
