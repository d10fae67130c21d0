// The configuration in effect, and a place to check another one before it is loaded.
import { attr, button, card, h, text } from "./dom.js";
import { forbids, form, told } from "./commands.js";
import { call, store } from "./api.js";

const draft = { text: null, settings: "" }; // as it was left

export function config(root) {
  const hash = h("p", { class: "note hash" }), inEffect = h("pre", { tabindex: "0", "aria-label": "Configuration in effect" });
  const area = h("textarea", { id: "cfg-text", rows: "15", spellcheck: "false", autocomplete: "off", placeholder: "nodes: 4\nduration: 30s\npacking: 2000" });
  const settings = h("textarea", { id: "cfg-settings", rows: "3", spellcheck: "false", placeholder: "packing=4000" });
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const check = button("Check", async () => {
    check.setAttribute("aria-busy", "true");
    try {
      const r = await call("POST", "/v1/config/check", { configuration: area.value, settings: lines() });
      answer.replaceChildren(...(r.ok ? good(r) : bad(r.problems || [])));
    } catch (e) {
      answer.replaceChildren(...bad(told(e)));
    }
    check.removeAttribute("aria-busy");
  }, { class: "primary" });
  const load = button("Load it …", () => {
    const cmd = loader();
    const no = cmd ? forbids(cmd) : "The control offers no command that takes a configuration.";
    if (no) return answer.replaceChildren(h("p", { class: "fault" }, no));
    const preset = {};
    for (const a of cmd.arguments) {
      if (a.type === "yaml") preset[a.name] = area.value;
      if (a.type === "settings" && settings.value.trim()) preset[a.name] = settings.value.trim();
    }
    form(cmd, preset); // with its plan before it
  });
  const loader = () => ((store.fsm && store.fsm.commands) || []).find((c) => (c.arguments || []).some((a) => a.type === "yaml"));
  const lines = () => settings.value.split("\n").map((l) => l.trim()).filter(Boolean);
  const good = (r) => [h("p", { class: "ok" }, "It would be taken."), h("p", { class: "note hash" }, `SHA-256 ${r.hash}`), h("details", {}, h("summary", {}, "Every setting, as it would be in effect"), h("pre", { tabindex: "0" }, r.effective))];
  const bad = (list) => [h("p", { class: "fault" }, list.length === 1 ? "It would be refused:" : `It would be refused, for ${list.length} reasons:`), h("ul", { class: "refusals" }, list.map((p) => h("li", {}, p)))];
  const take = button("Begin with the one in effect", () => (area.value = draft.text = (store.status && store.status.configuration) || ""), { class: "small" });
  area.addEventListener("input", () => (draft.text = area.value));
  settings.addEventListener("input", () => (draft.settings = settings.value));
  root.append(h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Configuration")),
    h("div", { class: "grid" },
      h("div", { class: "halfbox" }, card("Try one", "it is checked as load would, and nothing is changed", h("div", { class: "field" }, h("label", { for: "cfg-text" }, "Configuration, in YAML"), area), h("div", { class: "field" }, h("label", { for: "cfg-settings" }, "Changes to it, one a line"), settings), h("div", { class: "row" }, check, load, take), answer)),
      h("div", { class: "halfbox" }, card("In effect", null, hash, inEffect))));
  settings.value = draft.settings;
  const draw = () => {
    const s = store.status || {};
    text(hash, s.configurationHash ? `SHA-256 ${s.configurationHash}` : "");
    text(inEffect, s.configuration || "None: nothing is loaded.");
    take.hidden = !s.configuration;
    const cmd = loader();
    attr(load, "title", cmd ? forbids(cmd) || cmd.help : null);
    if (draft.text === null && s.configuration) area.value = draft.text = s.configuration;
  };
  area.value = draft.text || "";
  const off = store.on("status", draw);
  draw();
  return off;
}
