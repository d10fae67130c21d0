package tool

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(script string) Command { return Command{Program: "sh", Args: []string{"-c", script}} }

func TestRun(t *testing.T) {
	c := shell("pwd; echo why >&2; echo so >&2")
	c.Dir = "/"
	if out, err := c.Run(t.Context()); err != nil || string(out) != "/\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err := shell("echo all; echo why >&2; echo so >&2; exit 3").Run(t.Context())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.HasSuffix(err.Error(), "exit status 3: so") ||
		string(out) != "all\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = shell("echo only this; exit 1").Run(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), ": only this") {
		t.Error(err)
	}
	if _, err := (Command{Program: "/there/is/none"}).Run(t.Context()); err == nil {
		t.Error("what is not there was run")
	}
}

// A program that does not end on SIGTERM is killed when its time is over.
func TestTheEndOfItsContextEndsIt(t *testing.T) {
	const within = time.Minute // the scripts take longer by themselves
	for _, script := range []string{"exec sleep 100", "trap '' TERM; while :; do sleep 0.01; done"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		c := shell(script)
		c.EndTimeout = 200 * time.Millisecond
		began := time.Now()
		if _, err := c.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > within {
			t.Errorf("%q: %v after %v", script, err, time.Since(began))
		}
		cancel()
	}
}

func TestStop(t *testing.T) {
	p, err := shell("exec sleep 100").Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Stop()
	if p.exitErr == nil {
		t.Error("it ended well")
	}
}

func TestMissing(t *testing.T) {
	if err := CheckInstalled("sh"); err != nil {
		t.Error(err)
	}
	if err := CheckInstalled("sh", "no-such-a", "no-such-b"); err == nil ||
		err.Error() != "no-such-a, no-such-b not installed" {
		t.Error(err)
	}
}
