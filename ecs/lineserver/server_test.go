package lineserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ringlet/event/slowdata"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// keeper keeps values in memory, and refuses those that are named "no".
type keeper struct {
	mu     sync.Mutex
	values []string
}

func (k *keeper) keep(_ context.Context, values []slowdata.Value) (errs []error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range values {
		var err error
		if values[i].Name == "no" {
			err = errors.New("it is\nnot wanted")
		} else {
			k.values = append(k.values, values[i].Name+"="+values[i].String())
		}
		errs = append(errs, err)
	}
	return errs
}

func (k *keeper) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.values, " ")
}

func listen(t *testing.T, at string, keep func(context.Context, []slowdata.Value) []error) *Server {
	t.Helper()
	s, err := Listen(Config{Address: at, Keep: keep, Log: slog.New(slog.DiscardHandler)})
	must.OK(t, err)
	t.Cleanup(s.Close)
	return s
}

// exchange sends a text, closes its direction, and returns all answers.
func exchange(t *testing.T, s *Server, text string) string {
	t.Helper()
	network, at := "tcp", s.Addr()
	if path, ok := strings.CutPrefix(at, "unix:"); ok {
		network, at = "unix", path
	}
	c, err := net.Dial(network, at)
	must.OK(t, err)
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte(text))
	must.OK(t, err)
	must.OK(t, c.(interface{ CloseWrite() error }).CloseWrite())
	var answers []string
	for lines := bufio.NewScanner(c); lines.Scan(); {
		answers = append(answers, lines.Text())
	}
	return strings.Join(answers, "\n")
}

func TestLinesAreAnsweredWhenTheyAreKept(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "slow")} {
		k := &keeper{}
		s := listen(t, at, k.keep)
		got := exchange(t, s, "a 1\n\n# a comment\nb two\nno 1\nc nan\n"+strings.Repeat("x", 40_000)+"\nd 4\ne 5")
		for _, want := range []string{"unkept 5 it is; not wanted", `unkept 6 the value of "c"`,
			"unkept 7 the line has more than 8192 bytes", "unkept 9 the connection ended within this line"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no answer %q in\n%s", at, want, got)
			}
		}
		if !strings.HasSuffix(got, "\ndone 9") || strings.Count(got, "unkept") != 4 || k.String() != "a=1 b=two d=4" {
			t.Errorf("%s: answers\n%s\nkept: %v", at, got, k)
		}
	}
}

// TestNothingIsAnsweredBeforeItIsKept: while values cannot be kept, the server reads no further, and its end answers
// nothing.
func TestNothingIsAnsweredBeforeItIsKept(t *testing.T) {
	asked := make(chan int, 10)
	s := listen(t, "127.0.0.1:0", func(ctx context.Context, values []slowdata.Value) []error {
		asked <- len(values)
		<-ctx.Done() // bounded by the end of the server
		return make([]error, len(values))
	})
	answers := make(chan string)
	go func() { answers <- exchange(t, s, "a 1\n") }()
	patiently.Receive(t, asked)
	s.Close()
	if got := patiently.Receive(t, answers); got != "" {
		t.Errorf("answered: %s", got)
	}
}

func TestASocketIsForItsUserAndIsUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slow")
	stale, err := net.Listen("unix", path)
	must.OK(t, err)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	must.OK(t, stale.Close())
	k := &keeper{}
	listen(t, "unix:"+path, k.keep)
	st, err := os.Stat(path)
	must.OK(t, err)
	if st.Mode().Perm() != 0o600 {
		t.Errorf("the socket has the mode %v", st.Mode())
	}
	if _, err := Listen(Config{Address: "unix:" + path, Log: slog.New(slog.DiscardHandler)}); err == nil ||
		!strings.Contains(err.Error(), "listens at") {
		t.Errorf("a second server: %v", err)
	}
	if _, err := Listen(Config{Address: "nowhere", Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a wrong address is taken")
	}
}

// TestManySenders: each line of each sender has its answer, and is kept once.
func TestManySenders(t *testing.T) {
	k := &keeper{}
	s := listen(t, "unix:"+filepath.Join(t.TempDir(), "slow"), k.keep)
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			var text strings.Builder
			for n := range 100 {
				fmt.Fprintf(&text, "s%d %d\n", i, n)
			}
			if got := exchange(t, s, text.String()); !strings.HasSuffix(got, "done 100") || strings.Contains(got, "unkept") {
				t.Errorf("sender %d: %s", i, got)
			}
		})
	}
	patiently.Wait(t, senders.Wait)
	if n := len(strings.Fields(k.String())); n != 800 {
		t.Errorf("%d values", n)
	}
}
