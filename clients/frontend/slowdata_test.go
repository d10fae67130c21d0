package frontend_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/clients/frontend"
	"ringlet/testkit/compiled"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// receiveSlow takes slow data as docs/format/slowdata.md says: it ends the first connection after a line, unanswered,
// and keeps no value named "no".
func receiveSlow(lis net.Listener, lines chan<- string) {
	for first := true; ; first = false {
		c, err := lis.Accept()
		if err != nil {
			return
		}
		n := 0
		for in := bufio.NewScanner(c); in.Scan() && !first; {
			n++
			lines <- in.Text()
			if strings.HasPrefix(in.Text(), "no ") {
				fmt.Fprintf(c, "unkept %d it is not wanted\n", n)
			}
			fmt.Fprintf(c, "done %d\n", n)
		}
		_ = c.Close()
	}
}

func sendSlowInGo(ctx context.Context, at string) (string, error) {
	s := &frontend.SlowSender{Address: at}
	defer s.Close()
	begin := time.Unix(1796040000, 250_000_000)
	if err := s.SendNumber(ctx, "temp", 21.5, begin); err != nil {
		return "", err
	}
	if err := s.SendText(ctx, "beam", `on "target"`, time.Unix(1796040001, 0)); err != nil {
		return "", err
	}
	var unkept *frontend.UnkeptError
	if err := s.SendNumber(ctx, "a b", 1, begin); !errors.As(err, &unkept) {
		return "", fmt.Errorf("a name with a blank: %w", err)
	}
	err := s.SendNumber(ctx, "no", 3, time.Unix(1796040002, 0))
	if !errors.As(err, &unkept) {
		return "", err
	}
	return unkept.Why + "\n", nil
}

// TestSlowData: each client sends values, connects again, and tells what is not kept.
func TestSlowData(t *testing.T) {
	clients := map[string]func(t *testing.T, at string) (string, error){
		"go": func(t *testing.T, at string) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
			defer cancel()
			return sendSlowInGo(ctx, at)
		},
		"c": func(t *testing.T, at string) (string, error) {
			out, err := exec.Command(compiled.C(t, "../c", filepath.Join("testdata", "slow.c")), at).CombinedOutput()
			return string(out), err
		},
		"python": func(t *testing.T, at string) (string, error) {
			command := append(python(t, filepath.Join("testdata", "slow.py")), at)
			out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
			return string(out), err
		},
	}
	for name, client := range clients {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" "+network, func(t *testing.T) {
				at, prefix := "127.0.0.1:0", ""
				if network == "unix" {
					at, prefix = filepath.Join(t.TempDir(), "s"), "unix:"
				}
				lis, err := net.Listen(network, at)
				must.OK(t, err)
				lines := make(chan string, 10)
				taken := make(chan struct{})
				go func() { defer close(taken); receiveSlow(lis, lines) }()
				out, err := client(t, prefix+lis.Addr().String())
				must.OK(t, lis.Close())
				patiently.Receive(t, taken)
				close(lines)
				var got []string
				for line := range lines { // bounded by close
					got = append(got, line)
				}
				want := "temp 21.5 1796040000.250000\nbeam \"on \\\"target\\\"\" 1796040001.000000\nno 3 1796040002.000000"
				text := strings.ReplaceAll(strings.Join(got, "\n"), "no 3.0 ", "no 3 ")
				if err != nil || text != want || out != "it is not wanted\n" {
					t.Errorf("it sent\n%s\nand said %q, %v", text, out, err)
				}
			})
		}
	}
}
