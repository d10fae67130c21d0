// Which screen, which keys, which colours; what is on every screen.
import { look, num, span, time, witness, word } from "./logic.js";
import { attr, button, chip, h, icon, keyed, say, setChip, text } from "./dom.js";
import { bar, hurt, owner, told } from "./commands.js";
import { store } from "./api.js";
import { overview } from "./view_overview.js";
import { nodes } from "./view_nodes.js";
import { events } from "./view_events.js";
import { samples } from "./view_samples.js";
import { sources } from "./view_sources.js";
import { run, runs } from "./view_runs.js";
import { log } from "./view_log.js";
import { config } from "./view_config.js";
import { audit } from "./view_audit.js";

const $ = (id) => document.getElementById(id);

// ---- screens

const screens = [
  { name: "Overview", hash: "#/", key: "o", show: overview, id: "overview" },
  { name: "Nodes", hash: "#/nodes", key: "n", show: nodes, id: "nodes" },
  { name: "Sources", hash: "#/sources", key: "s", show: sources, id: "sources" },
  { name: "Events", hash: "#/events", key: "e", show: events, id: "events" },
  { name: "Samples", hash: "#/samples", key: "m", show: samples, id: "samples" },
  { name: "Runs", hash: "#/runs", key: "r", show: runs, id: "runs" },
  { name: "Log", hash: "#/log", key: "l", show: log, id: "log" },
  { name: "Configuration", hash: "#/config", key: "c", show: config, id: "config" },
  { name: "Audit", hash: "#/audit", key: "a", show: audit, id: "audit", admin: true },
];

let leave = null, here = null;

function go() {
  const hash = location.hash || "#/", one = /^#\/runs\/(\d+)$/.exec(hash);
  const screen = one ? screens.find((s) => s.id === "runs") : screens.find((s) => s.hash === hash) || screens[0];
  if (leave) leave();
  const first = here === null;
  here = screen;
  const main = $("main");
  main.replaceChildren();
  document.body.dataset.screen = one ? "run" : screen.id;
  document.title = `${one ? `Run ${one[1]}` : screen.name} – Ringlet`;
  leave = one ? run(main, one[1]) : screen.show(main);
  drawNav();
  $("nav").querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  if (first) return;
  scrollTo(0, 0);
  (main.querySelector("h1") || main).focus({ preventScroll: true });
}

function drawNav() {
  const list = screens.filter((s) => !s.admin || store.admin);
  keyed($("nav"), list, (s) => s.id, (s) => h("a", { href: s.hash }, s.name), (a, s) => attr(a, "aria-current", s === here ? "page" : null));
  const wrong = ((store.snapshot && store.snapshot.alarms) || []).length, a = $("nav").keyedChildren.get("log");
  attr(a, "data-count", wrong || null);
  attr(a, "aria-label", wrong ? `Log, ${wrong} alarm${wrong > 1 ? "s" : ""}` : null);
}

// ---- the strip: state, run, control, commands

function strip() {
  const state = chip(look(null), "large"), flag = h("span", { class: "flag" }, "DEGRADED"), runLine = h("span", { class: "runline" }), why = h("ul", { class: "whys" }), who = owner(), commands = bar();
  $("strip").append(h("div", { class: "stateline" }, state, flag, runLine, who.root), why, commands.root);
  let told_ = "";
  const update = () => {
    const s = store.status;
    if (!s || !s.root) return;
    const l = look(s.root);
    setChip(state, l);
    flag.hidden = !s.root.degraded;
    const words = `The partition is ${l.text}${s.root.degraded ? ", degraded" : ""}.`;
    if (told_ && words !== told_) say(words);
    told_ = words;
    keyed(why, hurt(s).slice(0, 4), (c) => `${c.cause.component} ${c.cause.what}`, (c) => h("li", { "data-kind": c.inError ? "error" : "degraded" }, h("b", {}, c.cause.component || c.name), " ", c.cause.what, c.cause.evidence ? h("small", {}, ` – seen by: ${witness(c.cause.evidence)}`) : null));
    why.hidden = !why.children.length;
    elapsed();
  };
  const elapsed = () => {
    const s = store.status, f = store.snapshot, n = num(s && s.run);
    if (!s || !s.root) return;
    const on = s.root.state === "Running" || s.root.state === "Paused" || s.root.inBetween === "Starting" || s.root.inBetween === "Stopping";
    const parts = n ? [h("a", { href: `#/runs/${n}` }, `${on ? "Run" : "Last run"} ${n}`)] : ["No run yet"];
    const more = on && f && num(f.run) === n ? ` for ${span(f.elapsedS)}` : s.since ? ` · in this state since ${time(s.since)} UTC` : "";
    if (runLine.textContent !== parts.map((p) => p.textContent || p).join("") + more) runLine.replaceChildren(...parts, more);
  };
  store.on("status", update);
  store.on("snapshot", elapsed);
}

// ---- the banner: what to know when the control is not there

function banner() {
  const box = $("banner");
  let back = 0;
  const lost = () => {
    const c = store.connection, since = new Date(c.since).toISOString().slice(11, 19);
    return h("div", { class: "banner bad" }, icon("warn"), h("div", {}, h("b", {}, c.was ? `The control has not answered since ${since} UTC.` : "The control does not answer."),
      h("p", {}, (c.why ? c.why + " " : "") + (c.was ? "What you see is from then. Nodes go on building for a while without it. This page asks every second and goes on by itself." : "This page asks every second and goes on by itself."))), button("Ask now", () => store.refresh()));
  };
  const refused = () => h("div", { class: "banner bad" }, icon("cross"), h("div", {}, h("b", {}, "The control does not let you in."), h("p", {}, `${store.connection.why} Come with the certificate of a viewer, an operator or an admin.`)), button("Ask again", () => store.refresh()));
  const locked = () => {
    const input = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-fault" }), fault = h("p", { class: "fault", id: "token-fault", role: "alert" });
    const f = h("form", {
      class: "token", on: {
        submit: async (e) => {
          e.preventDefault();
          if (!input.value.trim()) return input.focus();
          text(fault, "");
          try {
            await store.session(input.value.trim());
          } catch (e) {
            text(fault, told(e).join(" "));
            input.select();
          }
        },
      },
    }, h("label", { for: "token" }, "One-time token"), h("div", { class: "row" }, input, h("button", { type: "submit", class: "primary" }, "Open")), fault);
    return h("div", { class: "banner" + (store.connection.was ? " bad" : "") }, icon(store.connection.was ? "warn" : "person"), h("div", {}, h("b", {}, store.connection.was ? "Your session is over." : "Who are you?"),
      h("p", {}, store.connection.was ? "The control was restarted, or your session has expired. What you see is from before. " : "", "The control prints a one-time token when it starts, and an address with the token in it: open that address, or put the token in here. A token is good for one session; an admin can ask for another."), f));
  };
  store.on("connection", () => {
    clearTimeout(back);
    const c = store.connection;
    document.body.dataset.connection = c.state;
    document.body.toggleAttribute("data-stale", c.state !== "live" && c.was);
    if (c.state === "lost") box.replaceChildren(lost());
    else if (c.state === "refused") box.replaceChildren(refused());
    else if (c.state === "locked") {
      box.replaceChildren(locked());
      const input = box.querySelector("input");
      if (input) input.focus();
    } else if (c.state === "live" && c.was) {
      box.replaceChildren(h("div", { class: "banner good" }, icon("tick"), h("div", {}, h("b", {}, "The control is back."), h("p", {}, "What happened meanwhile is in the log."))));
      back = setTimeout(() => box.replaceChildren(), 5000);
    } else box.replaceChildren();
    $("main").hidden = $("strip").hidden = !store.status;
  });
}

// ---- who, colours, help

const themes = ["auto", "light", "dark"];
const theme = () => document.documentElement.dataset.theme || "auto";

function turn(to) {
  if (to === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = to;
  try {
    localStorage.setItem("ringlet-theme", to);
  } catch {
    // not remembered, then
  }
  drawWho();
  store.tell("theme");
}

function drawWho() {
  const me = store.me, now = theme(), link = store.connection.state;
  const words = { live: "live", joining: "joining", lost: "no answer", locked: "no session", refused: "refused" }[link];
  const parts = [
    [`link ${link}`, () => h("span", { class: "link", "data-state": link, title: "Connection to the control" }, words)],
    [`me ${me.name} ${me.role}`, () => (me.name ? h("span", { class: "me", title: "As the control knows you" }, icon("person"), h("span", {}, me.name), h("small", {}, word(me.role))) : h("span"))],
    [`theme ${now}`, () => button(icon({ auto: "auto", light: "sun", dark: "moon" }[now]), () => turn(themes[(themes.indexOf(theme()) + 1) % 3]), { class: "quiet", title: `Colours: ${now === "auto" ? "as the system" : now}. Press for the next (t).`, "aria-label": `Colours: ${now === "auto" ? "as the system" : now}` })],
    ["help", () => button(icon("help"), help, { class: "quiet", title: "Keys (?)", "aria-label": "Keys and help" })],
  ];
  const focused = $("who").contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  keyed($("who"), parts, ([k]) => k, ([, make]) => make());
  if (focused && focused.startsWith("Colours")) $("who").querySelector("button").focus();
}

function help() {
  if (document.querySelector("dialog.help")) return;
  const keys = [...screens.filter((s) => !s.admin || store.admin).map((s) => [`g ${s.key}`, s.name]), ["x", "to the commands; then Tab and Enter"], ["t", "next colours: system, light, dark"], ["?", "this list"], ["Esc", "close a dialog"]];
  const d = h("dialog", { class: "form help", "aria-labelledby": "help-title" }, h("h2", { id: "help-title" }, "Keys"),
    h("table", { class: "keys" }, h("tbody", {}, keys.map(([k, what]) => h("tr", {}, h("td", {}, k.split(" ").map((one) => h("kbd", {}, one))), h("td", {}, what))))),
    h("p", { class: "note" }, "Forbidden commands can be reached too: they say why they are forbidden. Times are UTC. The same can be done with ", h("code", {}, "ringlet ctl"), " and over the API: ", h("a", { href: "/openapi.json" }, "OpenAPI document"), "."),
    h("div", { class: "row end" }, button("Close", () => d.close(), { class: "primary", autofocus: true })));
  d.addEventListener("close", () => d.remove());
  document.body.append(d);
  d.showModal();
}

let led = 0;
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, dialog")) return;
  const to = Date.now() - led < 1500 && screens.find((s) => s.key === e.key && (!s.admin || store.admin));
  led = e.key === "g" ? Date.now() : 0;
  if (to) location.hash = to.hash;
  else if (e.key === "?") help();
  else if (e.key === "t") turn(themes[(themes.indexOf(theme()) + 1) % 3]);
  else if (e.key === "x") {
    const b = document.querySelector(".commands .primary") || document.querySelector(".commands button");
    if (b) b.focus();
  } else return;
  e.preventDefault();
});

// ---- alarms are told once, when they come

const known = new Set();
store.on("snapshot", () => {
  const all = (store.snapshot && store.snapshot.alarms) || [], names = new Set(all.map((a) => `${a.rule} ${a.component}`));
  for (const a of all) if (!known.has(`${a.rule} ${a.component}`)) say(`Alarm: ${a.what} ${a.advice}`);
  known.clear();
  names.forEach((n) => known.add(n));
  drawNav();
});

store.on("status", () => {
  drawNav();
  drawWho();
  $("main").hidden = $("strip").hidden = false;
  const s = store.status;
  if (s.version && $("foot").dataset.version !== s.version) {
    $("foot").dataset.version = s.version;
    $("foot").replaceChildren(`Ringlet ${s.version} · curves by uPlot (`, h("a", { href: "/uplot/LICENSE.txt" }, "licence"), ")");
  }
});
store.on("connection", drawWho);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => store.tell("theme"));
addEventListener("hashchange", go);

$("main").hidden = $("strip").hidden = true;
banner();
strip();
drawWho();
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault(); // its address would be taken for a screen
  $("main").focus();
});
// A module runs when the document is read, and the script of the curves before it.
go();
store.begin();
