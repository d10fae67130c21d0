// Elements from data. Data gets into the page as text and attributes only; there is no way in here for markup.

const svgNS = "http://www.w3.org/2000/svg";

function put(e, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "on") for (const [type, f] of Object.entries(value)) e.addEventListener(type, f);
    else if (key === "style") for (const [name, v] of Object.entries(value)) e.style.setProperty(name, v);
    else if (key === "text") e.textContent = value;
    else e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return e;
}

// h makes an element: h("td", {class: "n"}, "12").
export const h = (tag, props, ...children) => put(document.createElement(tag), props, children);

// s makes one of a drawing.
export const s = (tag, props, ...children) => put(document.createElementNS(svgNS, tag), props, children);

// text and attr change what differs and nothing else: a screen reader speaks, and a selection is lost, only where something is new.
export function text(e, value) {
  const v = value === undefined || value === null ? "" : String(value), only = e.firstChild;
  if (only && only === e.lastChild && only.nodeType === 3) {
    if (only.nodeValue !== v) only.nodeValue = v; // cheaper than another node
  } else if (e.textContent !== v) e.textContent = v;
  return e;
}

export function attr(e, name, value) {
  if (value === null || value === undefined || value === false) {
    if (e.hasAttribute(name)) e.removeAttribute(name);
  } else if (e.getAttribute(name) !== String(value === true ? "" : value)) e.setAttribute(name, value === true ? "" : value);
  return e;
}

// keyed makes the children of a parent fit a list, and keeps those that are there: what has the focus keeps it.
export function keyed(parent, items, key, make, update) {
  const have = parent.keyedChildren || (parent.keyedChildren = new Map());
  const want = new Set();
  let at = parent.firstChild;
  items.forEach((item, i) => {
    const k = String(key(item, i));
    want.add(k);
    let e = have.get(k);
    if (!e) have.set(k, (e = make(item)));
    if (update) update(e, item, i);
    if (e === at) at = at.nextSibling;
    else parent.insertBefore(e, at);
  });
  for (const [k, e] of have) {
    if (want.has(k)) continue;
    e.remove();
    have.delete(k);
  }
  return parent;
}

// icons say by their shape what colour says too.
const shapes = {
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  disc: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
  ring: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zm0 2a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7z",
  dash: "M3 7h10v2H3z",
  bar: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 2c.9 0 1.8.3 2.4.8L4.8 10.4A4 4 0 0 1 8 4zm0 8c-.9 0-1.8-.3-2.4-.8l5.6-5.6A4 4 0 0 1 8 12z",
  cross: "M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2zM5.6 4.5 4.5 5.6 6.9 8l-2.4 2.4 1.1 1.1L8 9.1l2.4 2.4 1.1-1.1L9.1 8l2.4-2.4-1.1-1.1L8 6.9z",
  dots: "M2.2 6.5h3v3h-3zM6.5 6.5h3v3h-3zM10.8 6.5h3v3h-3z",
  warn: "M8 1.5 15 14H1zM7.2 6v4h1.6V6zm0 5v1.6h1.6V11z",
  tick: "M6.3 12.6 2 8.3l1.5-1.5 2.8 2.8L12.6 3l1.5 1.5z",
  part: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zm0 2v7a3.5 3.5 0 1 1 0-7z",
  info: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM7.2 4h1.6v1.7H7.2zm0 2.9h1.6V12H7.2z",
  person: "M8 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM2.5 14c0-3 2.4-5 5.5-5s5.5 2 5.5 5z",
  sun: "M8 4.8a3.2 3.2 0 1 1 0 6.4 3.2 3.2 0 0 1 0-6.4zM7.3.8h1.4v2.4H7.3zm0 12h1.4v2.4H7.3zM.8 7.3h2.4v1.4H.8zm12 0h2.4v1.4h-2.4zM2.4 3.4l1-1 1.7 1.7-1 1zm8.5 8.5 1-1 1.7 1.7-1 1zM12.6 2.4l1 1-1.7 1.7-1-1zM4.1 10.9l1 1-1.7 1.7-1-1z",
  moon: "M6.5 1.6a6.6 6.6 0 1 0 8 8.5A5.6 5.6 0 0 1 6.5 1.6z",
  auto: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 3.3v9.4a4.7 4.7 0 0 0 0-9.4z",
  help: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM5.6 6.4C5.6 4.8 6.6 3.9 8 3.9s2.4.9 2.4 2.2c0 1-.5 1.6-1.2 2.1-.4.3-.5.5-.5.9v.4H7.3v-.7c0-.7.3-1.1.9-1.6.5-.4.8-.6.8-1.1s-.4-.9-1-.9-1 .4-1 1.2zM7.2 10.5h1.6v1.6H7.2z",
};

export const icon = (name) => s("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true", focusable: "false" }, s("path", { d: shapes[name] || shapes.dash, "fill-rule": "evenodd" }));

// chip shows a state: a mark, a word, a colour.
export function chip(look, size) {
  return setChip(h("span", { class: "chip" + (size ? " " + size : "") }), look);
}

export function setChip(e, look) {
  const now = look.kind + "|" + look.mark + "|" + look.text;
  if (e.shownLook === now) return e;
  e.shownLook = now;
  e.dataset.kind = look.kind;
  e.replaceChildren(icon(look.mark), h("span", {}, look.text));
  return e;
}

// button is a real one.
export const button = (label, f, props) => h("button", { type: "button", ...props, on: { click: f } }, label);

// card is a part of a screen with its heading.
export function card(title, note, ...content) {
  return h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, title), note && h("p", { class: "note" }, note)), ...content);
}

// table makes one with headings; cells of rows keep their heading for narrow screens. Columns: {title, class, help}.
export function table(columns, caption) {
  const body = h("tbody");
  const t = h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.class, title: c.help }, c.title)))), body);
  return { wide: h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, t), body, table: t };
}

export const cell = (column, ...content) => h("td", { class: column.class, "data-label": column.title }, ...content);

// say tells those who listen instead of looking.
export function say(words) {
  const e = document.getElementById("live");
  if (e) text(e, words);
}

// toast says how something went, and goes away; an error stays until it is sent away.
export function toast(words, bad) {
  const lines = Array.isArray(words) ? words : [words];
  const e = h("div", { class: "toast" + (bad ? " bad" : ""), role: bad ? "alert" : undefined }, icon(bad ? "cross" : "tick"), h("div", {}, lines.map((l) => h("p", {}, l))));
  e.append(button("×", () => e.remove(), { class: "close", "aria-label": "Close this message" }));
  const box = document.getElementById("toasts");
  while (box.children.length > 3) box.firstChild.remove();
  box.append(e);
  if (!bad) setTimeout(() => e.remove(), 6000);
  return e;
}
