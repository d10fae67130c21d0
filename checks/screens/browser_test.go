package screens

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// waitLimit is how long anything may take on a machine that does other things too.
const waitLimit = 60 * time.Second

// size of a window.
type size struct{ width, height int64 }

var (
	desk  = size{1280, 860}
	phone = size{360, 740}
)

// browser is a window of Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // what the browser complained about
}

// open starts a browser with a window of its own; it dies with the test. Its home is a folder of its own, which may be
// prepared.
func open(t *testing.T, s size, dark bool, prepare ...func(dir string)) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: no chromium here, nobody looked at the page")
	}
	dir, err := os.MkdirTemp("", "ringlet-screens-")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(dir)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Env("TMPDIR="+dir, "HOME="+dir),
		chromedp.WSURLReadTimeout(waitLimit),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }),
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(format string, args ...any) {
		// of a browser that is newer than chromedp
		if line := fmt.Sprintf(format, args...); !strings.Contains(line, "unhandled node event") {
			t.Log(line)
		}
	}))
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser to end
		cancel()
		stop()
		// Its children end a little later and still write: until they have, the folder comes again.
		for end := time.Now().Add(waitLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if err := os.RemoveAll(dir); err == nil && !used(dir) {
				return
			}
		}
		t.Errorf("%s cannot be taken away: Chromium does not end", dir)
	})
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.fault("script: " + e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			// a control that is gone is part of the test
			if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
				b.fault(string(e.Entry.Source) + ": " + e.Entry.Text)
			}
		}
	})
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(log.Enable(), runtime.Enable(), chromedp.EmulateViewport(s.width, s.height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}))
	return b
}

// used says whether a process has a folder in its command line, as all of Chromium's have.
func used(dir string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), dir) {
			return true
		}
	}
	return false
}

func (b *browser) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

// clean fails the test if the browser complained: of a script, or of what the page's policy forbids.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Error(f)
	}
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval reads a value from the page.
func eval[T any](b *browser, script string) (v T) {
	b.t.Helper()
	b.do(chromedp.Evaluate(script, &v))
	return v
}

// js does something in the page.
func (b *browser) js(script string) {
	b.t.Helper()
	eval[bool](b, "(() => {"+script+"; return true})()")
}

// wait asks until it is so.
func (b *browser) wait(what, script string) {
	b.t.Helper()
	for end := time.Now().Add(waitLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var is bool
		if err := chromedp.Run(b.ctx, chromedp.Evaluate("Boolean("+script+")", &is)); err == nil && is {
			return
		}
	}
	b.clean()
	var text string
	_ = chromedp.Run(b.ctx, chromedp.Evaluate(`document.body.innerText.slice(0, 3000)`, &text))
	b.t.Fatalf("after %v it is not so: %s\nthe page says:\n%s", waitLimit, what, text)
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

// sees waits until an element has a text in it.
func (b *browser) sees(selector, text string) {
	b.t.Helper()
	b.wait(selector+" says "+text, `[...document.querySelectorAll(`+quoted(selector)+
		`)].some(e => e.checkVisibility() && e.textContent.includes(`+quoted(text)+`))`)
}

// state waits for the partition's state.
func (b *browser) state(name string) {
	b.t.Helper()
	b.sees("#strip .chip.large", name)
}

// press clicks on what a selector finds, when it is there and allowed.
func (b *browser) press(selector string) {
	b.t.Helper()
	find := `document.querySelector(` + quoted(selector) + `)`
	b.wait(selector+" can be pressed", find+` && `+find+`.checkVisibility() && `+find+
		`.getAttribute("aria-disabled") !== "true"`)
	b.js(find + `.click()`)
}

// command presses a command's button.
func (b *browser) command(name string) {
	b.t.Helper()
	b.press(`.commands [data-command="` + name + `"]`)
}

// process runs a program until the test is over, and gives the lines that it prints.
type process struct {
	cmd   *exec.Cmd
	lines chan string
}

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), lines: make(chan string, 1000)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case p.lines <- s.Text():
			default: // nobody reads what comes after the first thousand
			}
		}
	}()
	t.Cleanup(func() {
		p.end()
		<-read // bounded by the end of the program, which closes its output
	})
	return p
}

// end asks the program to end, and waits for it. It may have been ended before.
func (p *process) end() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	forced := time.AfterFunc(waitLimit/2, func() { _ = p.cmd.Process.Kill() })
	defer forced.Stop()
	_ = p.cmd.Wait() // bounded by forced
}

// says waits for a line with a text in it.
func (p *process) says(t *testing.T, text string) string {
	t.Helper()
	var lines []string
	for end := time.After(waitLimit); ; {
		select { // bounded by end
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("%s ended without %q:\n%s", p.cmd.Path, text, strings.Join(lines, "\n"))
			}
			lines = append(lines, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-end:
			t.Fatalf("%s did not say %q in %v:\n%s", p.cmd.Path, text, waitLimit, strings.Join(lines, "\n"))
		}
	}
}

// address is the first word of a line that is one.
func address(t *testing.T, line string) string {
	t.Helper()
	for _, word := range strings.Fields(line) {
		if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") {
			return word
		}
	}
	t.Fatalf("no address in %q", line)
	return ""
}

var build = struct {
	sync.Mutex
	dir  string
	done map[string]string
}{done: map[string]string{}}

func TestMain(m *testing.M) {
	code := m.Run()
	if build.dir != "" {
		_ = os.RemoveAll(build.dir)
	}
	os.Exit(code)
}

// program builds a command of the module above, once.
func program(t *testing.T, pkg string) string {
	t.Helper()
	build.Lock()
	defer build.Unlock()
	if path, done := build.done[pkg]; done {
		return path
	}
	if build.dir == "" {
		dir, err := os.MkdirTemp("", "ringlet-screens-")
		if err != nil {
			t.Fatal(err)
		}
		build.dir = dir
	}
	path := filepath.Join(build.dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=") // of that module, not of this one
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	build.done[pkg] = path
	return path
}
