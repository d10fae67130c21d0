// Who asked for what, and what was answered: for admins.
import { day, word } from "./logic.js";
import { button, cell, chip, h, keyed, table, text } from "./dom.js";
import { told } from "./commands.js";
import { call, store } from "./api.js";

const columns = [{ title: "No.", class: "n" }, { title: "When (UTC)", class: "whole" }, { title: "Who" }, { title: "As" }, { title: "From", class: "whole" }, { title: "Asked for" }, { title: "" }, { title: "Answer", class: "words" }];

export function audit(root) {
  const t = table(columns, "Audit log"), words = h("p", { class: "note" }), again = button("Read again", () => load(), { class: "small" });
  t.wide.classList.add("cards");
  root.append(h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Audit"), words, again), t.wide);
  const load = async () => {
    try {
      const all = (await call("GET", "/v1/audit?limit=200")).entries || [];
      t.wide.hidden = !all.length;
      text(words, all.length ? `The newest ${all.length} requests that were obeyed or refused.` : "Nothing was asked for yet.");
      keyed(t.body, all, (e) => e.number, (e) => {
        const row = [String(e.number), day(e.at), e.user, word(e.role), e.address, e.action, chip(e.allowed ? { text: "obeyed", kind: "running", mark: "tick" } : { text: "refused", kind: "error", mark: "cross" }, "tiny"), e.answer];
        return h("tr", {}, columns.map((c, i) => cell(c, row[i])));
      });
    } catch (e) {
      t.wide.hidden = true;
      text(words, told(e).join(" "));
    }
  };
  let change = "";
  const off = store.on("status", () => {
    if (store.status.change === change) return;
    change = store.status.change;
    load();
  });
  load();
  return off;
}
