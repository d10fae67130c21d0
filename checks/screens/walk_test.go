package screens

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// markup is what somebody might write into a remark: it must stay text.
const markup = `<img src=x onerror="document.title='taken'"> & <b>remark</b>`

// fill writes into a field as a person would have.
func (b *browser) fill(selector, value string) {
	b.t.Helper()
	text, _ := json.Marshal(value)
	b.js(`const e = document.querySelector(` + quoted(selector) + `); e.value = ` + string(text) +
		`; e.dispatchEvent(new Event("input", {bubbles: true}))`)
}

// A run is configured, started, watched, stopped and looked up from the page.
func TestARunFromThePage(t *testing.T) {
	t.Parallel()
	_, at := fake(t)
	b := open(t, desk, false)
	b.do(chromedp.Navigate(at))
	b.state("Offline")
	if now := eval[string](b, "location.href"); strings.Contains(now, "token") {
		t.Errorf("the token stays in the address: %s", now)
	}

	b.command("load")
	b.fill("#arg-configuration", "nodes: 4\nduration: 1m\n")
	b.fill("#arg-settings", "no setting")
	b.press("dialog button[type=submit]")
	b.sees("dialog .fault", "is no setting")
	b.fill("#arg-settings", "")
	b.sees("dialog .plan", "What it would do")
	b.press("dialog button[type=submit]")
	b.state("NotReady")
	b.command("configure")
	b.state("Ready")
	b.command("start")
	b.fill("#arg-remark", markup)
	b.press("dialog button[type=submit]")
	b.state("Running")

	b.sees("#strip .runline", "Run 7 for")
	b.wait("a rate is shown", `/[1-9]/.test(document.querySelector(".figure .value").textContent)`)
	b.wait("four curves are drawn", `document.querySelectorAll(".figure canvas").length === 4`)
	b.wait("4 × 4 traffic has figures",
		`[...document.querySelectorAll(".heat td")].filter(e => Number(e.textContent) > 0).length === 16`)
	b.wait("phases are drawn", `document.querySelector("canvas.phases").height > 50`)
	b.wait("the latency has bars", `document.querySelectorAll(".histogram .bar").length > 3`)
	b.wait("decisions are counted", `/^[1-9]/.test(document.querySelector(".decisions dd").textContent)`)
	b.wait("the parts of their time are drawn", `document.querySelectorAll(".decisions .times-table tbody tr").length === 6 &&
		[...document.querySelectorAll(".decisions .times-table tbody svg")].every(e => e.querySelector(".bar"))`)
	b.wait("each builder unit has its filter",
		`document.querySelectorAll(".decisions .filter-table tbody tr").length === 4`)
	b.js(`document.querySelector(".registers summary").click()`)
	b.wait("the scheduler's registers are shown", `document.querySelector(".registers td").textContent === "ready" &&
		document.querySelectorAll(".registers svg .bar").length > 1`)
	b.sees(".registers button", "Clear the marks")
	b.sees(".tree", "n3")
	b.sees(".events", "Running")

	b.command("stop")
	b.sees("dialog .plan", "n0")
	b.press("dialog button[type=submit]")
	b.state("Ready")
	b.press("#strip .runline a")
	b.sees("h1", "Run 7")
	b.sees("main .chip.large", "GOOD")
	b.sees("main .title", markup)
	b.sees("main .times", "All running")
	b.sees("main .cards, main table", "equal")
	b.sees("main pre", "duration: 1m")
	if n := eval[int](b, `document.querySelectorAll("main img, main .title b").length`); n != 0 ||
		eval[string](b, "document.title") == "taken" {
		t.Error("a remark became markup")
	}
	b.js(`window.exported = ""; fetch(document.querySelector("a[download]").href).then(r => r.json()).then(o => window.exported = String(o.number))`)
	b.wait("the record is exported as JSON", `window.exported === "7"`)
	b.wait("sizes of a source are drawn", `document.querySelectorAll(".distributions .bar").length === 3`)
	b.wait("when its fragments were missing is drawn", `document.querySelectorAll(".distributions .lacks").length === 1`)
	b.fill(".distributions input", "1")
	b.js(`document.querySelector(".distributions input").dispatchEvent(new Event("change"))`)
	b.wait("beside those of run 1", `document.querySelector(".distributions path.other")`)
	b.sees(".distributions", "% as before")
	b.js(`window.saved = ""; URL.createObjectURL = (b) => (b.text().then((t) => (window.saved = t)), "#/runs/7")`)
	b.press(".distributions button")
	b.wait("they are saved", `window.saved.startsWith("run,source,name") && window.saved.includes("7,0,tof,size_bytes,400,415,")`)
	b.screen("#/runs", `document.querySelectorAll("main tbody tr").length === 7`)
	b.sees("main tbody tr:first-child", "GOOD")
	b.clean()
}

// What is forbidden says why, and can be reached to hear it.
func TestForbiddenCommandsSayWhy(t *testing.T) {
	t.Parallel()
	_, at := fake(t)
	b := open(t, desk, false)
	b.do(chromedp.Navigate(at))
	b.state("Offline")
	b.js(`document.querySelector('[data-command="start"]').click()`)
	b.sees(".why", "Not in Offline: it is allowed in Ready")
	if n := eval[int](b, `document.querySelectorAll("dialog").length`); n != 0 {
		t.Error("a forbidden command opened its form")
	}
	b.press(".owner button")
	b.sees(".owner", "You have control")
	b.press(".owner button")
	b.sees(".owner", "Nobody has control")
	b.clean()
}

// The page says that the control is gone, and goes on when it is back: with the session, or with a new one.
func TestTheControlGoesAndComesBack(t *testing.T) {
	t.Parallel()
	p, at := fake(t)
	b := open(t, desk, false)
	b.do(chromedp.Navigate(at))
	b.command("load")
	b.press("dialog button[type=submit]")
	b.state("NotReady")
	b.sees(".events", "NotReady")

	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.sees("#banner", "The control has not answered since")
	b.state("NotReady") // what was seen stays
	b.wait("no command can be given",
		`[...document.querySelectorAll(".commands button")].every(e => e.getAttribute("aria-disabled") === "true")`)
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.sees("#banner", "The control is back")
	b.command("configure")
	b.state("Ready")
	b.sees(".events", "Configuring")

	// Another control in its place knows nothing of the session, and counts its events anew.
	host := strings.TrimPrefix(strings.SplitN(at, "/?", 2)[0], "http://")
	p.end()
	b.sees("#banner", "has not answered")
	p = start(t, p.cmd.Path, "--page", host, "--api", "127.0.0.1:0")
	again := address(t, p.says(t, "page http"))
	b.sees("#banner", "Your session is over")
	b.fill("#token", "nonsense")
	b.press("#banner button[type=submit]")
	b.wait("a wrong token is refused", `document.querySelector("#token-fault").textContent !== ""`)
	b.fill("#token", strings.SplitN(again, "token=", 2)[1])
	b.press("#banner button[type=submit]")
	b.state("Offline")
	b.sees("#banner", "The control is back")
	b.sees(".events", "Configuring") // from before
	b.command("load")
	b.press("dialog button[type=submit]")
	b.state("NotReady")
	b.sees(".events li:first-child", "NotReady") // and the new control's
	b.clean()
}

// All of it without a mouse.
func TestByKeyboard(t *testing.T) {
	t.Parallel()
	_, at := fake(t)
	b := open(t, desk, false)
	b.do(chromedp.Navigate(at))
	b.state("Offline")
	for key, heading := range map[string]string{
		"n": "Nodes", "r": "Runs", "l": "Log and alarms", "c": "Configuration", "a": "Audit", "o": "Overview",
	} {
		b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent(key))
		b.wait("g "+key+" leads to "+heading,
			`document.activeElement.tagName === "H1" && document.activeElement.textContent === `+quoted(heading))
	}
	b.do(chromedp.KeyEvent("?"))
	b.sees("dialog.help", "next colours")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.wait("Escape closes the help", `!document.querySelector("dialog")`)
	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("o"), chromedp.KeyEvent("x"))
	b.wait("x leads to the next command", `document.activeElement.dataset.command === "load"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait("the form has the focus", `document.activeElement.id === "arg-configuration"`)
	b.do(chromedp.KeyEvent("nodes: 4"))
	b.wait("keys write", `document.activeElement.value === "nodes: 4"`)
	for range 20 { // to the button at the end
		if eval[string](b, `document.activeElement.type || ""`) == "submit" {
			break
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.state("NotReady")
	b.wait("a listener was told", `document.querySelector("#live").textContent.includes("NotReady")`)
	b.do(chromedp.KeyEvent("t"))
	b.wait("t changes colours", `document.documentElement.dataset.theme === "light"`)
	b.clean()
}

// as makes the page see another answer to GET /v1/status than the control gave: who has which certificate is not the
// browser's to choose.
func (b *browser) as(change string) {
	b.t.Helper()
	script := `const ask = window.fetch; window.fetch = async (path, init) => {
	  const answer = await ask(path, init);
	  if (path !== "/v1/status" || !answer.ok) return answer;
	  const s = await answer.json();
	  ` + change + `
	  return new Response(JSON.stringify(s));
	}`
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}))
}

// A viewer sees and cannot command; whoever may see nothing is told so, and does not ask again and again.
func TestWhoMayNotCommandSeesWhy(t *testing.T) {
	t.Parallel()
	_, at := fake(t)
	b := open(t, desk, false)
	b.as(`s.you = {name: "vera", role: "ROLE_VIEWER"};`)
	b.do(chromedp.Navigate(at))
	b.state("Offline")
	b.sees(".me", "vera")
	b.js(`document.querySelector('[data-command="load"]').click()`)
	b.sees(".why", "You are a viewer")
	if eval[bool](b, `Boolean([...document.querySelectorAll("#nav a, .owner button")].some(e => e.checkVisibility() && /Audit|control/.test(e.textContent)))`) {
		t.Error("a viewer is offered what is not a viewer's")
	}
	b.clean()

	_, at = fake(t)
	b = open(t, desk, false)
	b.as(`s.owner = {name: "bob", role: "ROLE_OPERATOR"}; s.you = {name: "alice", role: "ROLE_OPERATOR"};`)
	b.do(chromedp.Navigate(at))
	b.sees(".owner", "bob has control")
	b.js(`document.querySelector('[data-command="load"]').click()`)
	b.sees(".why", "bob has control")
	b.clean()

	_, at = fake(t)
	b = open(t, desk, false)
	b.as(`window.asked = (window.asked || 0) + 1; return new Response(JSON.stringify({code: 7, message: "a node sees nothing here"}), {status: 403});`)
	b.do(chromedp.Navigate(at))
	b.sees("#banner", "a node sees nothing here")
	b.js(`document.dispatchEvent(new Event("visibilitychange"))`)
	b.wait("it asks when it is told to", `window.asked === 2`)
	b.clean()
}
