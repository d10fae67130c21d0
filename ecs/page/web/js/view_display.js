// The display of an event of a vertex detector: hits, tracks and vertices, in the plane of z and r, as the filter finds them.
import { count, short } from "./logic.js";
import { Tally, close, drawable, posted, radius, ticks, whole } from "./display.js";
import { attr, h, keyed, s, text } from "./dom.js";
import { call } from "./api.js";

const tally = new Tally(); // as long as the page is open
const marks = { collision: "a collision", beauty: "a decay of a B meson", strange: "a decay of a kaon" };

// place turns mm into points of a drawing.
const place = (w, width, height) => ({ x: (z) => ((z - w.z0) / (w.z1 - w.z0)) * width, y: (r) => height - ((r - w.r0) / (w.r1 - w.r0)) * height });

const cross = (x, y, n, cls, title) => s("path", { class: cls, d: `M${x - n} ${y - n}L${x + n} ${y + n}M${x - n} ${y + n}L${x + n} ${y - n}` }, s("title", {}, title));
const diamond = (x, y, n, cls, title) => s("path", { class: cls, d: `M${x - n} ${y}L${x} ${y - n}L${x + n} ${y}L${x} ${y + n}Z` }, s("title", {}, title));

// draw fills a drawing with what is in a window. Tracks go to their outermost hit, or to the edge.
function draw(svg, a, w, width, height, near) {
  const at = place(w, width, height - 20), fix = (v) => v.toFixed(1), inside = (v) => v.z >= w.z0 && v.z <= w.z1 && Math.abs(radius(v)) <= w.r1;
  attr(svg, "height", height);
  attr(svg, "viewBox", `0 0 ${width} ${height}`);
  const out = [s("line", { class: "beam", x1: 0, x2: width, y1: at.y(0), y2: at.y(0) })];
  if (!near) out.push(...a.planes.map(([z, from, to]) => s("line", { class: "sensor", x1: fix(at.x(z)), x2: fix(at.x(z)), y1: fix(at.y(from)), y2: fix(at.y(to)) })));
  out.push(...a.tracks.filter((t) => !near || t.from[0] < w.z1 + 50).map((t) => s("line", { class: t.displaced ? "track displaced" : "track", x1: fix(at.x(t.from[0])), y1: fix(at.y(t.from[1])), x2: fix(at.x(t.to[0])), y2: fix(at.y(t.to[1])) })));
  if (!near) out.push(...a.hits.map(([z, r]) => s("circle", { class: "hit", cx: fix(at.x(z)), cy: fix(at.y(r)), r: 1.3 })));
  for (const v of (a.truth && a.truth.vertices) || []) {
    if (!inside(v)) continue;
    const title = `what happened: ${marks[v.kind] || v.kind} at z ${v.z.toFixed(2)} mm`, x = at.x(v.z), y = at.y(radius(v));
    out.push(v.kind === "collision" ? s("circle", { class: "truth", cx: x, cy: y, r: 8 }, s("title", {}, title)) : s("rect", { class: v.kind === "beauty" ? "truth wanted" : "truth", x: x - 7, y: y - 7, width: 14, height: 14 }, s("title", {}, title)));
  }
  for (const v of a.primaries) if (inside(v)) out.push(cross(at.x(v.z), at.y(radius(v)), 5, "vertex", `a collision, found of ${v.tracks} tracks at z ${v.z.toFixed(2)} ± ${v.sz.toFixed(2)} mm`));
  if (a.secondary && inside(a.secondary)) out.push(diamond(at.x(a.secondary.z), at.y(radius(a.secondary)), 6, "secondary", `a displaced vertex, found of ${a.secondary.tracks} tracks at z ${a.secondary.z.toFixed(2)} ± ${a.secondary.sz.toFixed(2)} mm`));
  out.push(s("rect", { class: "edge", x: 0, y: height - 20, width, height: 20 }), ...ticks(w.z0, w.z1, Math.max(3, width / 110)).map((z) => s("text", { class: "label", x: fix(Math.min(width - 14, Math.max(14, at.x(z)))), y: height - 5, "text-anchor": "middle" }, String(z))));
  svg.replaceChildren(...out);
}

// key of a drawing in words: what each mark is.
const legend = [["hit", "cluster on an R sensor"], ["track", "track"], ["displaced", "track that passes the collision by"], ["vertex", "collision, found"], ["secondary", "displaced vertex, found"], ["truth", "what happened: collision"], ["wanted", "decay of a B meson"], ["kaon", "decay of a kaon"]];
function sign(kind) {
  const e = s("svg", { class: "display sign", width: 22, height: 16, "aria-hidden": "true" });
  if (kind === "hit") e.append(s("circle", { class: "hit", cx: 11, cy: 8, r: 2 }));
  else if (kind === "track" || kind === "displaced") e.append(s("line", { class: kind === "track" ? "track" : "track displaced", x1: 1, x2: 21, y1: 12, y2: 4 }));
  else if (kind === "vertex") e.append(cross(11, 8, 5, "vertex", ""));
  else if (kind === "secondary") e.append(diamond(11, 8, 6, "secondary", ""));
  else if (kind === "truth") e.append(s("circle", { class: "truth", cx: 11, cy: 8, r: 6 }));
  else e.append(s("rect", { class: kind === "wanted" ? "truth wanted" : "truth", x: 5, y: 2, width: 12, height: 12 }));
  return e;
}

export function display() {
  const facts = h("dl", { class: "facts" }), state = h("p", { class: "note", role: "status" }), big = s("svg", { class: "display", width: "100%", role: "img" }), small = s("svg", { class: "display", width: "100%", role: "img" });
  const keys = h("ul", { class: "legend" }), known = h("p", { class: "note" }), near = h("figure", {}, h("figcaption", { class: "note" }, "Around the vertices: distance to the beam against z, in mm; tracks near the beam as the search in r and z has them"), small);
  const drawings = h("div", {}, h("figure", {}, h("figcaption", { class: "note" }, "The whole detector: distance to the beam against z, in mm; below the line the half with x < 0"), big), near, keys);
  const root = h("section", { class: "card full displaybox", hidden: true }, h("div", { class: "head" }, h("h2", {}, "What the vertex filter sees"), state), facts, drawings, known);
  let asked = "", answer = null;
  const pair = (k, v, odd) => h("div", {}, h("dt", {}, k), h("dd", { class: odd ? "odd" : undefined }, v));
  const paint = () => {
    const width = Math.round(drawings.clientWidth);
    if (!answer || !width) return;
    draw(big, answer, whole(answer), width, width < 600 ? 220 : 320, false);
    const w = close(answer);
    near.hidden = !w;
    if (w) draw(small, answer, w, width, width < 600 ? 180 : 240, true);
  };
  const fill = (e, a) => {
    answer = a;
    const p = a.primaries[0], v = a.secondary, t = a.truth, c = tally.add(`${e.run} ${e.event}`, a);
    const rest = a.lacking ? ` It has ${a.boards} of the detector's ${a.boards + a.lacking} boards: what the others saw is not in it.` : "";
    text(state, `Event ${count(e.event)}, judged anew for this drawing.${rest}`);
    facts.replaceChildren(pair("The filter says", a.accepted ? "accepted" : "rejected"), pair("Clusters", count(a.clusters)), pair("Tracks", `${a.tracks.length}, ${a.tracks.filter((x) => x.displaced).length} displaced`),
      pair("Collision at z", p ? `${p.z.toFixed(2)} ± ${p.sz.toFixed(2)}\u202fmm` : "not found"), pair("Displaced vertex", v ? `${(v.z - (p ? p.z : 0)).toFixed(1)}\u202fmm behind, score ${short(a.score)}` : "none"),
      pair("What happened", t ? (t.displaced ? "two B mesons" : "no B meson") : "not known", t && t.displaced !== a.accepted));
    keyed(keys, legend.filter(([k]) => t || (!["truth", "wanted", "kaon"].includes(k))), ([k]) => k, ([k, words]) => h("li", {}, sign(k), words));
    text(known, c.with + c.without ? `Of the ${count(c.with + c.without)} whole events drawn here whose truth is known: accepted were ${count(c.withAccepted)} of ${count(c.with)} with B mesons, and ${count(c.withoutAccepted)} of ${count(c.without)} without.` : "");
    attr(big, "aria-label", `${a.hits.length} hits, ${a.tracks.length} tracks, ${a.primaries.length} collisions, ${v ? "one displaced vertex" : "no displaced vertex"}`);
    attr(small, "aria-label", "The same around the vertices");
    drawings.hidden = false;
    paint();
  };
  const seen = new ResizeObserver(paint);
  seen.observe(drawings);
  return {
    root,
    // show asks for the drawing of an event, once.
    async show(e) {
      root.hidden = !drawable(e);
      const key = root.hidden ? "" : `${e.run} ${e.event} ${e.attempt} ${e.fragments.length}`;
      if (key === asked) return;
      asked = key;
      if (!key) return;
      try {
        const a = await call("POST", "/display/vertex", posted(e));
        if (asked === key) fill(e, a);
      } catch (fault) {
        if (asked !== key) return;
        answer = null;
        drawings.hidden = true;
        facts.replaceChildren();
        text(state, fault.message);
      }
    },
    end: () => seen.disconnect(),
  };
}
