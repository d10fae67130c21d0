package screens

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// partition is a real run control with nodes on loopback.
type partition struct {
	control   *process
	program   string
	keys, dir string
	nodes     int
	join      string // where the nodes are told that the control is
	page      string
}

func newPartition(t *testing.T, nodes int, users ...string) *partition {
	t.Helper()
	p := &partition{
		program: program(t, "./cmd/ringlet"),
		nodes:   nodes,
		keys:    t.TempDir(),
		dir:     t.TempDir(),
		join:    "127.0.0.1:0",
		page:    "127.0.0.1:0",
	}
	names := []string{"certs", p.keys, "--host", "127.0.0.1"}
	for i := range nodes {
		names = append(names, fmt.Sprint("n", i))
	}
	for _, u := range users {
		names = append(names, "--user", u)
	}
	if out, err := exec.Command(p.program, names...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// steer starts the control, at the addresses that it had if it ran before, and returns the address that lets a browser
// in.
func (p *partition) steer(t *testing.T) string {
	t.Helper()
	_, port, _ := strings.Cut(p.join, ":")
	p.control = start(t, p.program, "control", "--certs", p.keys, "--state", p.dir, "--port", port, "--api", "127.0.0.1:0",
		"--page", p.page, "--nodes", fmt.Sprint(p.nodes))
	words := strings.Fields(p.control.says(t, "nodes join at"))
	p.join = words[len(words)-1]
	line := p.control.says(t, "the page is at")
	at := address(t, line)
	if _, file, ok := strings.Cut(line, " with the token in "); ok { // nobody looks at its output
		text, err := os.ReadFile(strings.TrimSpace(file))
		if err != nil {
			t.Fatal(err)
		}
		at = strings.TrimSpace(string(text))
	}
	p.page = strings.TrimPrefix(strings.SplitN(at, "/?", 2)[0], "http://")
	return at
}

// A run of a real partition from the page: configured, started, watched, stopped, looked up; in a second one the
// control is killed, comes back, and the run goes on.
func TestARealPartitionFromThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short, no real partition")
	}
	p := newPartition(t, 4)
	at := p.steer(t)
	for i := range 4 {
		start(t, p.program, "node", "--name", fmt.Sprint("n", i), "--join", p.join, "--certs", p.keys)
	}
	b := open(t, desk, false)
	b.do(chromedp.Navigate(at))
	b.state("Offline")
	b.screen("#/config", `document.querySelector("#cfg-text")`)
	b.fill("#cfg-text", "nodse: 4\n")
	b.press("main button.primary")
	b.sees(".refusals", "nodse")
	b.fill("#cfg-text", "nodes: 4\nduration: 10m\nrate: 20000\npacking: 500\ncontrol-loss: 30s\n")
	b.press("main button.primary")
	b.sees(".answer", "It would be taken")
	b.js(`[...document.querySelectorAll("main button")].find(e => e.textContent.startsWith("Load it")).click()`)
	b.press("dialog button[type=submit]")
	b.state("NotReady")
	b.screen("#/", `document.querySelector(".figure")`)
	b.command("configure")
	b.state("Ready")
	b.command("start")
	b.press("dialog button[type=submit]")
	b.state("Running")
	b.sees("#strip .runline", "Run 1 for")
	b.wait("a rate is shown", `/[1-9]/.test(document.querySelector(".figure .value").textContent)`)
	b.wait("traffic has figures",
		`[...document.querySelectorAll(".heat td")].filter(e => Number(e.textContent) > 0).length >= 12`)
	b.wait("the latency has bars", `document.querySelectorAll(".histogram .bar").length > 0`)
	b.wait("phases are drawn", `document.querySelector("canvas.phases").height > 50`)
	b.screen("#/nodes", `document.querySelectorAll("main tbody tr").length === 4`)
	b.wait("every node sends",
		`[...document.querySelectorAll("main tbody tr")].every(e => /bit/.test(e.children[3].textContent))`)
	b.screen("#/", `document.querySelector(".figure")`)
	if *shots != "" {
		time.Sleep(*watched)
	}
	b.realShot("real-overview")
	b.command("stop")
	b.press("dialog button[type=submit]")
	b.state("Ready")
	b.screen("#/runs/1",
		`document.querySelector("h1").textContent === "Run 1" && document.querySelector("main .chip.large")`)
	b.sees("main .chip.large", "GOOD")
	b.sees("main table", "equal")
	b.realShot("real-run")

	b.screen("#/", `document.querySelector(".figure")`)
	b.command("start")
	b.press("dialog button[type=submit]")
	b.state("Running")
	if err := p.control.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.sees("#banner", "has not answered")
	p.control.end()
	again := p.steer(t)
	b.wait("it is back, or asks who we are",
		`document.querySelector("#banner").textContent.match(/is back|session is over/)`)
	if eval[bool](b, `Boolean(document.querySelector("#token"))`) {
		b.fill("#token", strings.SplitN(again, "token=", 2)[1])
		b.press("#banner button[type=submit]")
	}
	b.state("Running")
	b.sees("#strip .runline", "Run 2")
	b.command("stop")
	b.press("dialog button[type=submit]")
	b.state("Ready")
	b.screen("#/runs", `document.querySelectorAll("main tbody tr").length === 2`)
	b.clean()
}

// realShot draws a screen of the real partition, where pictures are asked for.
func (b *browser) realShot(name string) {
	if *shots != "" {
		b.shot(name)
	}
}
