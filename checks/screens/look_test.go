package screens

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// tooPale lists texts whose contrast with what is behind them is less than WCAG AA asks for. What is disabled is
// exempt.
const tooPale = `(() => {
  const canvas = document.createElement("canvas"), c = canvas.getContext("2d", {willReadFrequently: true});
  canvas.width = canvas.height = 1;
  const rgba = (colour) => { c.clearRect(0, 0, 1, 1); c.fillStyle = colour; c.fillRect(0, 0, 1,
  	1); const d = c.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) { const l = rgba(getComputedStyle(e).backgroundColor); layers.unshift(l); if (l[3] === 1) break; }
    return layers.reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const bright = (v) => { const [r, g, b] = v.map((x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 +
  	0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const out = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() ||
    	e.closest("[aria-disabled=true], .unseen, svg, noscript, script")) continue;
    const ground = behind(e), style = getComputedStyle(e), a = bright(over(rgba(style.color),
    	ground)), b = bright(ground), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const big = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.7 &&
    	Number(style.fontWeight) >= 700);
    if (ratio < (big ? 3 : 4.5)) out.push(e.tagName + "." + e.className + " \"" + e.textContent.slice(0, 30) + "\": " +
    	ratio.toFixed(2));
  }
  return [...new Set(out)].join("\n");
})()`

// nameless lists what can be pressed or filled in and has no name for those who do not see it.
const nameless = `[...document.querySelectorAll("button, a, input, select, textarea, [role=img], [role=region]")].filter((e) => e.checkVisibility() &&
  !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).map((e) => e.outerHTML.slice(0, 120)).join("\n")`

// wider names what stands out of the window at its right, where nothing scrolls it.
const wider = `document.documentElement.scrollWidth <= innerWidth ? "" : [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".wide, #nav, pre, .unseen"))
  .map((e) => e.tagName + "." + e.className + " to " + Math.round(e.getBoundingClientRect().right)).slice(0, 8).join("\n") || "the page is " + document.documentElement.scrollWidth + " wide"`

// Every screen fits on a phone, can be read in light and dark, and has a name for each thing that can be pressed.
func TestEveryScreenFitsAndCanBeRead(t *testing.T) {
	for _, as := range []struct {
		name string
		size size
		dark bool
	}{{"phone light", phone, false}, {"phone dark", phone, true}, {"desk light", desk, false}, {"desk dark", desk, true}} {
		t.Run(as.name, func(t *testing.T) {
			t.Parallel()
			_, at := fake(t)
			b := open(t, as.size, as.dark)
			look := func(screen string) {
				t.Helper()
				for what, script := range map[string]string{
					"too pale": tooPale, "without a name": nameless, "wider than the window": wider,
				} {
					if found := eval[string](b, script); found != "" {
						t.Errorf("%s: %s:\n%s", screen, what, found)
					}
				}
			}
			b.do(chromedp.Navigate(strings.SplitN(at, "?", 2)[0]))
			b.sees("#banner", "One-time token")
			look("who are you")
			b.do(chromedp.Navigate(at))
			b.state("Offline")
			look("overview, offline")
			b.command("load")
			b.wait("its form has a plan", `document.querySelector("dialog .plan li")`)
			look("form of load")
			b.press("dialog button[type=submit]")
			b.state("NotReady")
			b.command("configure")
			b.state("Ready")
			b.command("start")
			b.press("dialog button[type=submit]")
			b.state("Running")
			b.sees(".alarm", "holds phases")
			b.wait("the traffic is shown", `document.querySelector(".heat td")`)
			look("overview, running")
			b.press(`button[aria-label="exclude n2"]`)
			b.press("dialog button[type=submit]")
			b.sees("#strip .flag", "DEGRADED")
			b.sees(".part", "Excluded")
			look("overview, degraded")
			b.screen("#/nodes", `document.querySelector("main tbody tr button")`)
			b.press("main tbody tr button.toggle")
			look("nodes")
			b.screen("#/sources", heatDrawn)
			look("sources")
			b.screen("#/events", `document.querySelector("main tbody tr button")`)
			b.press("main tbody tr button.toggle")
			b.sees("main .dump", "01 02 03")
			b.sees(".displaybox", "two B mesons")
			b.sees(".displaybox", "It has 1 of the detector's 100 boards")
			b.wait("hits are drawn, in a window as wide as the page",
				`document.querySelectorAll(".displaybox circle.hit").length >= 3`)
			look("events")
			b.screen("#/log", `document.querySelector(".events time")`)
			look("log")
			b.screen("#/config", `document.querySelector("#cfg-text")`)
			look("configuration")
			b.js(`fetch("/fake/lose?node=n1", {method: "POST"})`)
			b.state("Error")
			b.screen("#/", `document.querySelector(".tree .cause:not([hidden])")`)
			look("overview, error")
			b.screen("#/runs", `document.querySelector("main tbody tr a")`)
			look("runs")
			b.screen("#/runs/3", `document.querySelector(".causebox")`)
			look("a run")
			b.screen("#/runs/999", `document.querySelector("main .empty-state")`)
			look("a run that is not there")
			b.screen("#/audit", `document.querySelector("main tbody tr")`)
			look("audit")
			b.clean()
		})
	}
}
