package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// written is a log.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// openExec runs a command, and returns what the log says.
func openExec(t *testing.T, command string) (live.Feed, *written) {
	t.Helper()
	set, log := settings(command), &written{}
	set.Log = slog.New(slog.NewTextHandler(log, nil))
	f, err := OpenExec(t.Context(), set)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	return f, log
}

// stream writes a file for a program to print.
func stream(t *testing.T, dir, name string, parts ...[]byte) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(dir, name), slices.Concat(parts...), 0o600))
}

// TestExec: a program that prints a stream and reads no answer is a front-end. Its standard error is in the log.
func TestExec(t *testing.T) {
	dir := t.TempDir()
	stream(t, dir, "all", appendHello(nil, plain), events(0, 5000), endFrame(5000))
	f, log := openExec(t, fmt.Sprintf("echo ready >&2; cat '%s/all'", dir))
	collect(t, f, 0, 5000)
	ended(t, f)
	f.SetSafeBelow(5000)
	must.OK(t, f.Close())
	if !strings.Contains(log.String(), "line=ready") {
		t.Error(log)
	}
	if s := f.Stats(); s.FrontendsAttached != 1 || s.FrontendsGone != 0 || s.RefusedMessages != 0 {
		t.Errorf("%+v", s)
	}
}

// TestExecAgain: a program that dies is started again, and is asked to resume.
func TestExecAgain(t *testing.T) {
	dir := t.TempDir()
	whole := events(0, 100)
	stream(t, dir, "first", appendHello(nil, old), whole[:len(whole)-3])
	stream(t, dir, "second", appendHello(nil, old), events(50, 120), endFrame(120))
	f, log := openExec(t, fmt.Sprintf(`cd '%s'; if mkdir once 2>/dev/null; then cat first; exit 3; fi
cat second; head -c 24 > answer; head -c 24 > acked; touch done`, dir))
	collect(t, f, 0, 120)
	ended(t, f)
	f.SetSafeBelow(120)
	for until := time.Now().Add(patiently.LongTimeout); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
			break
		}
	}
	acked, err := os.ReadFile(filepath.Join(dir, "acked"))
	must.OK(t, err)
	if want := appendAnswer(nil, version1, answer{Code: codeAcknowledged, A: 120}); !bytes.Equal(acked, want) {
		t.Errorf("the program reads %x, want %x", acked, want)
	}
	if s := f.Stats(); s.FrontendsAttached != 2 || s.FrontendsGone != 1 || s.Repeated != 49 || s.Fragments != 120 {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(log.String(), "exit status 3") {
		t.Error(log)
	}
}

// TestExecClosed: a feed that is closed ends its program, with all that it has started.
func TestExecClosed(t *testing.T) {
	dir := t.TempDir()
	stream(t, dir, "all", appendHello(nil, plain), events(0, 10))
	f, _ := openExec(t, fmt.Sprintf("cat '%s/all'; sleep 1000 & sleep 1000", dir))
	collect(t, f, 0, 10)
	must.OK(t, f.Close())
	if s := f.Stats(); s.FrontendsGone != 0 {
		t.Errorf("%+v", s)
	}
}

// TestLines: what a program says is cut into lines, however it comes and however long it is.
func TestLines(t *testing.T) {
	var got []string
	l := &lineSplitter{onLine: func(s string) { got = append(got, s) }}
	long := strings.Repeat("x", maxLogLineBytes)
	for _, b := range []string{"a\nb", "c\n\n", long + "y", "\n", long, "\n", "rest"} {
		n, err := l.Write([]byte(b))
		must.OK(t, err)
		if n != len(b) {
			t.Errorf("%d of %d bytes", n, len(b))
		}
	}
	l.flush()
	l.flush()
	if want := []string{"a", "bc", "", long, "y", long, "", "rest"}; !slices.Equal(got, want) {
		t.Errorf("%.20q, want %.20q", got, want)
	}
}

// halfConn is a pipe of which one direction can be closed, in words at least.
type halfConn struct{ net.Conn }

func (halfConn) CloseWrite() error { return nil }

// TestSlowHello: a front-end that says its hello a byte a second is refused in bounded time.
func TestSlowHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed(t.Context(), settings(""))
		ours, theirs := net.Pipe()
		f.wg.Go(func() {
			_, err := f.serve(halfConn{ours}, "there", nil)
			if err == nil || !strings.Contains(err.Error(), "no hello came within 5s") {
				t.Error(err)
			}
		})
		began := time.Now()
		f.wg.Go(func() {
			for _, b := range appendHello(nil, plain) {
				if _, err := theirs.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		var b [answerSize]byte
		_, err := theirs.Read(b[:])
		must.OK(t, err)
		if took := time.Since(began); answerCode(b[5]) != codeBadFormat || took != helloTimeout {
			t.Errorf("answer %d after %v", b[5], took)
		}
		must.OK(t, theirs.Close())
		must.OK(t, f.Close())
	})
}

// TestExecInVain: a program that never sends a fragment ends its source in bounded time, with a sentence that says what
// it was.
func TestExecInVain(t *testing.T) {
	f := newFeed(t.Context(), settings("printf 'no detector' >&2; exit 3"))
	f.restartPause = time.Millisecond
	f.wg.Go(f.superviseProgram)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	_, err := f.Next(ctx, make([]live.Fragment, 1))
	want := `exit status 3, and said last "no detector", 5 times in a row`
	if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// TestExecNotThere: a program that is not there, or is none, ends its source at once, with its name.
func TestExecNotThere(t *testing.T) {
	plainFile := filepath.Join(t.TempDir(), "text")
	must.OK(t, os.WriteFile(plainFile, nil, 0o600))
	for _, command := range []string{"/nonexistent/program --fast", "no-such-program-here", "exec /nonexistent/program"} {
		f, err := OpenExec(t.Context(), settings(command))
		if err == nil {
			must.OK(t, f.Close())
		}
		if err == nil || !strings.Contains(err.Error(), "there is no program") || !strings.Contains(err.Error(), command) {
			t.Errorf("%s: %v", command, err)
		}
	}
	for _, command := range []string{"'/nonexistent/program' --fast", plainFile, "A=1 no-such-program-here"} {
		f, err := OpenExec(t.Context(), settings(command))
		if err == nil { // only the shell can tell
			ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
			_, err = f.Next(ctx, make([]live.Fragment, 1))
			cancel()
			must.OK(t, f.Close())
		}
		if err == nil || !strings.Contains(err.Error(), "cannot be run") || !strings.Contains(err.Error(), command) {
			t.Errorf("%s: %v", command, err)
		}
	}
	for _, command := range []string{"true", "cd /; true", "if true; then sleep 0; fi", "/bin/sh -c 'exit 0'"} {
		f, err := OpenExec(t.Context(), settings(command))
		must.OK(t, err)
		must.OK(t, f.Close())
	}
}
