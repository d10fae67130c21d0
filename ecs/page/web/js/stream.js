// A stream of the API that a screen looks at.
import { failure } from "./logic.js";
import { store } from "./api.js";

// looking keeps the stream open while the screen is there, the tab can be seen and the control is reached: a browser has
// few connections. ask gives the address, or nothing when there is nothing to look at, and is asked again a second later;
// take gets each message; tell gets why a stream was refused. It returns what opens the stream anew, and what ends it.
export function looking({ ask, take, tell }) {
  let stream = null, again = 0, gone = false;
  const close = () => {
    clearTimeout(again);
    if (stream) stream.close();
    stream = null;
  };
  const look = () => {
    close();
    if (gone || document.hidden || !store.live) return;
    const address = ask();
    if (!address) {
      again = setTimeout(look, 1000);
      return;
    }
    const mine = new EventSource(address);
    stream = mine;
    let any = false;
    mine.onmessage = (m) => {
      any = true;
      let o;
      try {
        o = JSON.parse(m.data);
      } catch {
        return; // a torn line: the next one is whole
      }
      take(o.result || o);
    };
    mine.onerror = async () => {
      if (stream !== mine) return;
      close();
      // A stream that never spoke was refused, and does not say why: what is wrong is asked for.
      const why = any ? "" : await refusal(address);
      if (gone || stream) return;
      if (why) tell(why);
      again = setTimeout(look, why ? 5000 : 2000);
    };
  };
  const off = store.on("connection", look);
  document.addEventListener("visibilitychange", look);
  const end = () => {
    gone = true;
    close();
    off();
    document.removeEventListener("visibilitychange", look);
  };
  return { look, end };
}

// refusal asks why a stream was refused; nothing if it is not any more.
async function refusal(address) {
  const stop = new AbortController();
  try {
    const answer = await fetch(address, { credentials: "same-origin", cache: "no-store", signal: stop.signal });
    if (answer.ok) return "";
    const body = await answer.json();
    return failure(body.error && body.error.message ? body.error : body, answer.status).join(" ");
  } catch {
    return "";
  } finally {
    stop.abort();
  }
}
