package screens

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "draw every screen into this folder; without it no pictures are made")

// fakePath is for work on the page itself: a made-up partition that is built already.
var fakePath = flag.String("fake", "", "use this program for the made-up partition in place of building it")

// fake starts the made-up partition and returns the address that lets a browser in.
func fake(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	path := *fakePath
	if path == "" {
		path = program(t, "./testkit/apitest/fake")
	}
	p := start(t, path, append([]string{"--page", "127.0.0.1:0", "--api", "127.0.0.1:0"}, args...)...)
	return p, address(t, p.says(t, "page http"))
}

// shot draws the whole screen, however long it is; what a dialog stands before only as far as the window shows it.
func (b *browser) shot(name string) {
	b.t.Helper()
	b.js(`document.querySelectorAll(".toast").forEach(e => e.remove())`)
	time.Sleep(300 * time.Millisecond) // what is drawn with the next frame is
	var raw []byte
	if eval[bool](b, `Boolean(document.querySelector("dialog"))`) {
		b.do(chromedp.CaptureScreenshot(&raw))
	} else {
		b.do(chromedp.FullScreenshot(&raw, 100))
	}
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewColours(picture)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), out.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) screen(hash, has string) {
	b.t.Helper()
	b.js(`location.hash = ` + quoted(hash))
	b.wait("screen "+hash, has)
}

// heatDrawn is so when the screen of sources has its table and its map.
const heatDrawn = `document.querySelector("main tbody tr") && document.querySelector("canvas.heatmap").height > 50`

func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("no pictures were asked for: -shots FOLDER, or make screenshots")
	}
	if err := os.MkdirAll(*shots, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, as := range []struct {
		name string
		size size
		dark bool
	}{{"desk-light", desk, false}, {"desk-dark", desk, true}, {"phone", phone, false}} {
		t.Run(as.name, func(t *testing.T) { everyScreen(t, as.name, as.size, as.dark) })
	}
	t.Run("many", manyNodes)
}

// manyNodes draws a partition of 32.
func manyNodes(t *testing.T) {
	_, at := fake(t, "--nodes", "32")
	b := open(t, desk, false)
	b.do(chromedp.Navigate(at))
	b.command("load")
	b.press("dialog button[type=submit]")
	b.state("NotReady")
	b.command("configure")
	b.state("Ready")
	b.command("start")
	b.press("dialog button[type=submit]")
	b.state("Running")
	time.Sleep(*watched)
	b.shot("desk-light-32-nodes")
	b.clean()
}

// everyScreen draws all of them, in the order in which a run comes by.
func everyScreen(t *testing.T, as string, s size, dark bool) {
	p, at := fake(t)
	b := open(t, s, dark)
	b.do(chromedp.Navigate(strings.SplitN(at, "?", 2)[0]))
	b.sees("#banner", "One-time token")
	b.shot(as + "-token")
	b.do(chromedp.Navigate(at))
	b.state("Offline")
	b.shot(as + "-offline")
	b.command("load")
	b.wait("its form has a plan", `document.querySelector("dialog .plan li")`)
	b.shot(as + "-load")
	b.press("dialog button[type=submit]")
	b.state("NotReady")
	b.command("configure")
	b.state("Ready")
	b.command("start")
	b.press("dialog button[type=submit]")
	b.state("Running")
	b.sees(".alarm", "holds phases")
	time.Sleep(*watched)
	b.shot(as + "-overview")
	b.screen("#/nodes", `document.querySelectorAll("main tbody tr").length >= 4`)
	b.press("main tbody tr:nth-child(2) button.toggle")
	b.shot(as + "-nodes")
	b.screen("#/sources", heatDrawn)
	b.shot(as + "-sources")
	b.screen("#/events", `document.querySelector("main tbody tr button")`)
	b.shot(as + "-events")
	b.screen("#/log", `document.querySelector(".events li time")`)
	b.shot(as + "-log")
	b.screen("#/", `document.querySelector(".heat td")`)
	if s == desk {
		b.command("stop")
		b.wait("its form has a plan", `document.querySelector("dialog .plan li")`)
		b.shot(as + "-stop")
		b.press("dialog button:not([type=submit])")
	}
	b.press(`button[aria-label="exclude n2"]`)
	b.press("dialog button[type=submit]")
	b.sees("#strip .flag", "DEGRADED")
	b.shot(as + "-degraded")
	b.js(`fetch("/fake/lose?node=n2", {method: "POST"})`)
	b.state("Error")
	b.shot(as + "-error")
	b.screen("#/runs", `document.querySelectorAll("main tbody tr").length >= 7`)
	b.shot(as + "-runs")
	b.screen("#/runs/7", `document.querySelector(".times li")`)
	b.shot(as + "-run-aborted")
	b.screen("#/runs/1", `document.querySelector("h1").textContent === "Run 1" && document.querySelector(".times li")`)
	b.shot(as + "-run-good")
	b.screen("#/config", `document.querySelector("#cfg-text")`)
	b.js(`document.querySelector("#cfg-text").value = "nodse: 4\nslot-size: 1024\n"`)
	b.press("main button.primary")
	b.sees(".refusals", "nodse")
	b.shot(as + "-config")
	b.screen("#/audit", `document.querySelector("main tbody tr")`)
	b.shot(as + "-audit")
	b.do(chromedp.KeyEvent("?"))
	b.shot(as + "-help")
	b.press("dialog button")
	b.screen("#/", `document.querySelector(".heat")`)
	p.end()
	b.sees("#banner", "has not answered")
	b.shot(as + "-lost")
	b.clean()
}

// watched is how long the curves grow before they are drawn.
var watched = flag.Duration("watched", 5*time.Second, "how long a run is watched before its picture is taken")
