// What is asked of the control, and whether it is there. One store for all screens: they are told by topics when it changes.
import { History, Log, failure, length, word } from "./logic.js";
import { Heat } from "./quality.js";

export class APIError extends Error {
  constructor(status, body) {
    const lines = failure(body, status);
    super(lines[0]);
    this.lines = lines;
    this.status = status;
  }
}

// call asks once. An answer that is no success is an APIError; no answer is a TypeError or a time-out of the browser.
export async function call(method, path, body, seconds = 5) {
  const init = { method, headers: { Accept: "application/json" }, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(seconds * 1000) };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  const answer = await fetch(path, init);
  const text = await answer.text();
  let parsed = null;
  try {
    parsed = text ? JSON.parse(text) : null;
  } catch {
    // not ours: a proxy's page, or torn
  }
  if (!answer.ok) {
    if (answer.status === 401) store.locked();
    throw new APIError(answer.status, parsed && parsed.error && parsed.error.message ? parsed.error : parsed);
  }
  return parsed || {};
}

const remembered = "ringlet-history";

class Store {
  status = null;
  fsm = null;
  snapshot = null;
  counters = []; // those there are, with what they mean
  history = new History();
  heat = new Heat();
  log = new Log();
  // connection: "joining", "live", "lost" (no answer, since), "locked" (it asks who we are, and we have no session), "refused".
  connection = { state: "joining", since: Date.now(), was: false };
  #topics = new Map();
  #streams = [];
  #asking = null;
  #again = false;
  #retry = 0;
  #timer = 0;
  #cut = 0; // streams that ended without a message, one after the other

  on(topic, f) {
    if (!this.#topics.has(topic)) this.#topics.set(topic, new Set());
    this.#topics.get(topic).add(f);
    return () => this.#topics.get(topic).delete(f);
  }

  tell(topic) {
    for (const f of this.#topics.get(topic) || []) f();
  }

  get live() {
    return this.connection.state === "live";
  }

  get me() {
    return (this.status && this.status.you) || {};
  }

  get admin() {
    return word(this.me.role) === "admin";
  }

  begin() {
    try {
      this.history.restored(sessionStorage.getItem(remembered), Date.now() / 1000);
      addEventListener("pagehide", () => sessionStorage.setItem(remembered, this.history.saved()));
    } catch {
      // no storage: the curves begin anew with each load
    }
    call("GET", "/counters.json").then((list) => (this.counters = list), () => {}); // without it, names explain themselves
    // A page that nobody sees gives its connections back after a while: a browser has few for one host.
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#timer);
      if (document.hidden) this.#timer = setTimeout(() => this.#shut(), 30000);
      else this.refresh();
    });
    addEventListener("online", () => this.refresh());
    setInterval(() => document.hidden || ["locked", "refused"].includes(this.connection.state) || this.refresh(), 5000);
    this.refresh();
  }

  // refresh reads the state. Requests for it that come meanwhile make one more, so the newest answer is of after the last request.
  refresh() {
    if (this.#asking) {
      this.#again = true;
      return this.#asking;
    }
    this.#asking = this.#read().finally(() => {
      this.#asking = null;
      if (this.#again) {
        this.#again = false;
        this.refresh();
      }
    });
    return this.#asking;
  }

  async #read() {
    clearTimeout(this.#retry);
    try {
      const status = await call("GET", "/v1/status", undefined, 4);
      if (!this.fsm || !this.live) this.fsm = await call("GET", "/v1/fsm", undefined, 4);
      this.status = status;
      this.#become("live");
      this.#open();
      this.tell("status");
    } catch (e) {
      if (e instanceof APIError && e.status === 401) return; // locked already
      if (e instanceof APIError && e.status === 403) return this.#refused(e.message);
      this.connection.why = e instanceof APIError ? e.message : "";
      this.#become("lost");
      this.#shut();
      this.#retry = setTimeout(() => this.refresh(), 1000);
    }
  }

  locked() {
    this.#shut();
    this.#become("locked");
  }

  // refused: who we are is known, and may see nothing. Asking again by itself would fill the audit log.
  #refused(why) {
    this.#shut();
    this.connection.why = why;
    this.#become("refused");
  }

  #become(state) {
    if (this.connection.state === state) return;
    const was = this.connection.was || this.live;
    this.connection = { state, since: Date.now(), was, why: this.connection.why };
    this.tell("connection");
  }

  #open() {
    if (document.hidden || this.#streams.length) return;
    this.#stream("/v1/snapshots?intervalMs=500", (s) => {
      this.snapshot = s;
      this.heard = Date.now();
      this.history.add(s);
      this.heat.add(s);
      this.tell("snapshot");
    });
    // From the first that is remembered, or after the last that was seen.
    this.#stream(`/v1/events?logs=true&after=${Math.max(1, this.log.last)}`, (e) => {
      if (e.kind === "gap" && !this.log.last) return; // what was before this page is no loss
      if (!this.log.add(e)) {
        this.log.anew(); // an older number than what we asked for: the control counts anew
        this.#shut();
        this.refresh();
        return;
      }
      if (e.kind !== "log") this.refresh();
      this.tell("events");
    });
  }

  #stream(path, take) {
    const source = new EventSource(path);
    source.onmessage = (m) => {
      this.#cut = 0;
      let o;
      try {
        o = JSON.parse(m.data);
      } catch {
        return; // a torn line: the next one is whole
      }
      take(o.result || o);
    };
    source.onerror = () => {
      // The browser would try again by itself, for ever and without a word. We ask for the state first, and say what is.
      this.#shut();
      setTimeout(() => this.refresh(), Math.min(500 * 2 ** this.#cut++, 8000));
    };
    this.#streams.push(source);
  }

  #shut() {
    for (const s of this.#streams) s.close();
    this.#streams = [];
  }

  // ---- what people ask for

  plan(command, args) {
    return call("POST", "/v1/plan", { command, arguments: args });
  }

  // command waits for the end; the time-out is the command's own, with room.
  async command(cmd, args) {
    const seconds = length(cmd.timeout) + 30;
    try {
      return await call("POST", "/v1/command", { command: cmd.name, arguments: args }, seconds);
    } finally {
      this.refresh();
    }
  }

  async control(verb, body) {
    try {
      return await call("POST", `/v1/control/${verb}`, body || {});
    } finally {
      this.refresh();
    }
  }

  async session(token) {
    await call("POST", "/v1/session", { token });
    this.#become("joining");
    return this.refresh();
  }
}

export const store = new Store();
