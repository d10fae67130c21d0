// Commands made of what DescribeFSM tells: buttons, forms with typed fields, the plan before it is done.
import { argumentFault, every, hindrance, next, nodesOf, pointed } from "./logic.js";
import { attr, button, h, keyed, say, text, toast } from "./dom.js";
import { APIError, store } from "./api.js";

export const titled = (name) => name.charAt(0).toUpperCase() + name.slice(1).replace(/[-_]/g, " ");
export const told = (e) => (e instanceof APIError ? e.lines : [e.name === "TimeoutError" ? "The control did not answer in time. See the state and the log for the outcome." : "The control did not answer. See the state and the log for the outcome when it answers again."]);

const busy = new Set(); // names of commands under way from here

// give carries a command out and says how it went.
export async function give(cmd, args) {
  busy.add(cmd.name);
  store.tell("status");
  try {
    const r = await store.command(cmd, args);
    toast(r.message || `${titled(cmd.name)}: done, the partition is ${r.state}.`);
    return true;
  } catch (e) {
    toast([`${titled(cmd.name)} was not done.`, ...told(e)], true);
    return false;
  } finally {
    busy.delete(cmd.name);
    store.tell("status");
  }
}

// ask opens the form where there is something to fill in or to think about, and gives the command otherwise.
export function ask(cmd, preset) {
  const needs = (cmd.arguments || []).some((a) => !(preset && a.name in preset));
  if (needs || cmd.destructive) form(cmd, preset || {});
  else give(cmd, preset || {});
}

// forbids says why a command cannot be given now, or nothing.
export const forbids = (cmd) => (store.live ? hindrance(cmd, store.status) : "The control does not answer.");

// bar is the row of all commands. A forbidden one can be reached and says why it is forbidden.
export function bar() {
  const why = h("p", { class: "why", role: "status" }), row = h("div", { class: "commands", role: "group", "aria-label": "Commands" }), root = h("div", { class: "bar" }, row, why);
  const update = () => {
    const status = store.status, list = (store.fsm && store.fsm.commands) || [], first = next(store.fsm, status);
    keyed(row, list, (c) => c.name, (c) => {
      const b = button(titled(c.name), () => {
        const no = forbids(b.offered);
        text(why, no ? `${titled(c.name)}: ${no}` : "");
        if (!no && !busy.has(c.name)) ask(b.offered);
      });
      b.addEventListener("pointerenter", () => text(why, forbids(b.offered) ? `${titled(c.name)}: ${forbids(b.offered)}` : `${titled(c.name)}: ${b.offered.help}`));
      b.addEventListener("focus", () => text(why, forbids(b.offered) ? `${titled(c.name)}: ${forbids(b.offered)}` : `${titled(c.name)}: ${b.offered.help}`));
      return b;
    }, (b, c) => {
      b.offered = c; // not b.command: buttons have a property of that name
      const no = forbids(c), running = busy.has(c.name);
      attr(b, "aria-disabled", no || running ? "true" : null);
      attr(b, "aria-busy", running ? "true" : null);
      attr(b, "data-command", c.name);
      attr(b, "aria-description", no || c.help);
      b.className = running ? "busy" : no ? "" : c.name === first ? "primary" : c.destructive ? "danger" : "";
    });
  };
  row.addEventListener("pointerleave", () => text(why, ""));
  const off = [store.on("status", update), store.on("connection", update)];
  update();
  return { root, end: () => off.forEach((f) => f()) };
}

// acts fills a place with the commands that are about one node. Those that would change nothing are left out.
export function acts(place, node) {
  const useful = !node ? [] : pointed(store.fsm).filter((c) => (c.name === "exclude" ? node.included !== false : c.name === "include" ? node.included === false && !node.spare : true));
  keyed(place, useful, (c) => c.name, (c) => {
    const b = button(titled(c.name), () => {
      const no = forbids(b.offered);
      if (no) toast(`${titled(c.name)} ${b.node}: ${no}`, true);
      else ask(b.offered, { [b.offered.arguments.find((a) => a.type === "node").name]: b.node });
    }, { class: "small" });
    return b;
  }, (b, c) => {
    const no = forbids(c);
    b.offered = c;
    b.node = node.name;
    attr(b, "aria-disabled", no ? "true" : null);
    attr(b, "title", no || c.help);
    attr(b, "aria-label", `${c.name} ${node.name}`);
  });
}

// field makes what an argument is filled in with: [label with field, read].
function field(a, preset, changed) {
  const id = `arg-${a.name}`, start = preset ?? a.defaultValue ?? "";
  const common = { id, name: a.name, required: Boolean(a.required), "aria-describedby": `${id}-help`, autocomplete: "off", spellcheck: "false" };
  const fault = h("p", { class: "fault", id: `${id}-fault` });
  let e, read = () => e.value.trim(), more = null;
  switch (a.type) {
    case "bool":
      e = h("input", { ...common, required: false, type: "checkbox" });
      e.checked = start === "true";
      read = () => (e.checked ? "true" : "false");
      break;
    case "node": {
      const names = nodesOf(store.status).map((n) => n.name);
      e = h("select", common, a.required ? null : h("option", { value: "" }, "–"), names.map((n) => h("option", { value: n }, n)));
      if (names.includes(start)) e.value = start;
      break;
    }
    case "yaml":
    case "settings":
      e = h("textarea", { ...common, rows: a.type === "yaml" ? 10 : 3, placeholder: a.type === "yaml" ? "nodes: 4\nduration: 30s" : "packing=2000" });
      e.value = start;
      if (a.type === "yaml") more = files(e, changed);
      break;
    default:
      e = h("input", { ...common, type: "text", inputmode: a.type === "uint" ? "numeric" : undefined, placeholder: a.type === "duration" ? "30s" : a.defaultValue || undefined });
      e.value = start;
  }
  const check = () => {
    const wrong = argumentFault(a, read());
    text(fault, wrong);
    attr(e, "aria-invalid", wrong ? "true" : null);
    return !wrong;
  };
  e.addEventListener("input", () => {
    check();
    changed();
  });
  const words = h("span", { class: "name" }, a.name.replace(/[-_]/g, " "), a.required ? null : h("small", {}, " optional"));
  return {
    name: a.name, read, check, element: e,
    root: h("div", { class: "field" + (a.type === "bool" ? " check" : "") }, h("label", { for: id }, words), e, more, h("p", { class: "note", id: `${id}-help` }, a.help), fault),
  };
}

// files lets a configuration be taken from a file or from what is in effect.
function files(area, changed) {
  const fill = (value) => {
    area.value = value;
    area.dispatchEvent(new Event("input"));
    changed();
  };
  const input = h("input", { type: "file", accept: ".yaml,.yml,text/yaml,text/plain", hidden: true, on: { change: async () => input.files[0] && fill(await input.files[0].text()) } });
  return h("div", { class: "row" }, button("Open a file…", () => input.click(), { class: "small" }), store.status && store.status.configuration ? button("The one in effect", () => fill(store.status.configuration), { class: "small" }) : null, input);
}

// form is the dialog of a command.
export function form(cmd, preset) {
  let timer = 0, asked = 0;
  const plan = h("div", { class: "plan", "aria-live": "polite" });
  const fields = (cmd.arguments || []).map((a) => field(a, preset[a.name], () => {
    clearTimeout(timer);
    timer = setTimeout(look, 300);
  }));
  const values = () => Object.fromEntries(fields.map((f) => [f.name, f.read()]).filter(([, v]) => v !== ""));
  const go = h("button", { type: "submit", class: cmd.destructive ? "danger" : "primary" }, titled(cmd.name));
  const cancel = button("Cancel", () => dialog.close());
  const look = async () => {
    const turn = ++asked;
    let answer;
    try {
      answer = await store.plan(cmd.name, values());
    } catch (e) {
      answer = { possible: false, refusals: told(e) };
    }
    if (turn !== asked) return; // an older question
    plan.replaceChildren(h("h3", {}, answer.possible ? "What it would do" : "It would be refused"));
    if (!answer.possible) plan.append(h("ul", { class: "refusals" }, (answer.refusals || []).map((r) => h("li", {}, r))));
    if ((answer.steps || []).length) plan.append(h("ol", {}, answer.steps.map((s) => h("li", {}, h("b", {}, s.component), " ", s.what))));
    else if (answer.possible) plan.append(h("p", { class: "note" }, "Nothing has to be done."));
    go.toggleAttribute("data-doubtful", !answer.possible);
  };
  const dialog = h("dialog", { class: "form", "aria-labelledby": "form-title" },
    h("form", {
      method: "dialog", novalidate: true, on: {
        submit: (e) => {
          e.preventDefault();
          const wrong = fields.filter((f) => !f.check());
          if (wrong.length) return wrong[0].element.focus();
          dialog.close();
          give(cmd, values());
        },
      },
    }, h("h2", { id: "form-title" }, titled(cmd.name)), h("p", {}, cmd.help), fields.map((f) => f.root), plan, h("div", { class: "row end" }, cancel, go)));
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  (fields.length ? fields[0].element : cmd.destructive ? cancel : go).focus();
  look();
  return dialog;
}

// owner says who has control, and offers to take it or to give it back.
export function owner() {
  const words = h("span"), act = button("", () => act.does()), root = h("div", { class: "owner" }, words, act);
  const doing = (verb, body, done) => async () => {
    try {
      await store.control(verb, body);
      say(done);
    } catch (e) {
      toast(told(e), true);
    }
  };
  const update = () => {
    const s = store.status;
    if (!s) return;
    act.disabled = !store.live;
    const o = s.owner || {}, me = s.you || {}, role = String(me.role || "");
    const can = role === "ROLE_OPERATOR" || role === "ROLE_ADMIN";
    if (!o.name) {
      text(words, "Nobody has control");
      text(act, "Take control");
      act.does = doing("take", {}, "You have control.");
      act.hidden = !can;
    } else if (o.name === me.name) {
      text(words, "You have control");
      text(act, "Release");
      act.does = doing("release", {}, "You have given control back.");
      act.hidden = false;
    } else {
      text(words, `${o.name} has control`);
      text(act, "Take it by force");
      act.does = doing("take", { force: true }, "You have taken control.");
      act.hidden = role !== "ROLE_ADMIN";
    }
    attr(words, "title", o.since ? `since ${new Date(o.since).toISOString().slice(0, 19).replace("T", " ")} UTC` : null);
  };
  const off = [store.on("status", update), store.on("connection", update)];
  update();
  return { root, end: () => off.forEach((f) => f()) };
}

// about finds the components that are hurt, deepest first, for the line that says why.
export function hurt(status) {
  const all = every(status && status.root).filter(({ c }) => c.cause && c.cause.what);
  const seen = new Set();
  return all.reverse().filter(({ c }) => {
    const key = `${c.cause.component} ${c.cause.what}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  }).map(({ c }) => c);
}
