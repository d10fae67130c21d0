// Slow data on the screen of sources: the last value of each name.
import { cell, h, keyed, table, text } from "./dom.js";
import { span } from "./logic.js";

const columns = [
  { title: "Name" }, { title: "Value", class: "words" }, { title: "Time", help: "when it was so, by the sender's clock; UTC" },
  { title: "Age", class: "n", help: "since it came" }, { title: "By", help: "the user who gave it by a command" },
];

// slowData is the part of the screen; update shows the values of a snapshot.
export function slowData() {
  const t = table(columns, "Slow data"), root = h("section", { class: "card full", hidden: true }, h("div", { class: "head" }, h("h2", {}, "Slow data"), h("p", { class: "note" }, "The last value of each name, those that came last first.")), t.wide);
  t.wide.classList.add("cards");
  const update = (s) => {
    const all = s.slowValues || [];
    root.hidden = !all.length;
    keyed(t.body, all, (x) => x.name, () => h("tr", {}, columns.map((c) => cell(c))), (tr, x) => {
      const td = tr.children;
      text(td[0], x.name);
      text(td[1], x.value);
      text(td[2], x.time.replace("T", " ").replace("Z", "").slice(0, 23));
      text(td[3], span(Math.max(0, (new Date(s.at) - new Date(x.received)) / 1000)));
      text(td[4], x.user || "–");
    });
  };
  return { root, update };
}
