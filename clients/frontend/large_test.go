package frontend_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/clients/frontend"
	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// largeFragment is what event e has: 3 MB, less e bytes.
func largeFragment(e uint64) []byte { return bytes.Repeat([]byte{byte(e*7 + 13)}, 3_000_000-int(e)) }

const largeEvents = 20

// TestLargeFragments: the clients in Go, C and Python send fragments as large as the input declares, and refuse larger
// ones.
func TestLargeFragments(t *testing.T) {
	for name, send := range map[string]func(t *testing.T, address string) error{
		"go": sendLarge,
		"c": func(t *testing.T, address string) error {
			out, err := exec.CommandContext(t.Context(), compiled.C(t, "../c", "testdata/large.c"), address,
				fmt.Sprint(largeEvents)).CombinedOutput()
			return says(err, out)
		},
		"python": func(t *testing.T, address string) error {
			command := append(interpreted.Python(t, "../python"), filepath.Join("testdata", "large.py"), address,
				fmt.Sprint(largeEvents))
			out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
			return says(err, out)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "feed")
			set := live.FeedSettings{Address: path, Name: "unix:" + path, MaxFragment: 3_000_000}
			f, err := frames.OpenUnix(t.Context(), set)
			must.OK(t, err)
			defer f.Close()
			built := make(chan error, 1)
			go func() { built <- buildLarge(t, f) }()
			must.OK(t, send(t, "unix:"+path))
			must.OK(t, patiently.Receive(t, built, "no end"))
		})
	}
}

func says(err error, out []byte) error {
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func sendLarge(t *testing.T, address string) error {
	s, err := frontend.Dial(longContext(t), address, frontend.StreamSettings{Keep: 10 << 20})
	if err != nil {
		return err
	}
	if err := s.Send(longContext(t), 0, make([]byte, 3_000_001)); err == nil || !strings.Contains(err.Error(), "?max=") {
		return fmt.Errorf("a fragment that is too large: %w", err)
	}
	for e := range uint64(largeEvents) {
		if err := s.Send(longContext(t), e, largeFragment(e)); err != nil {
			return err
		}
	}
	return s.Close(longContext(t))
}

func buildLarge(t *testing.T, f live.Feed) error {
	dst := make([]live.Fragment, 4)
	for next := uint64(0); ; {
		n, err := f.Next(longContext(t), dst)
		if errors.Is(err, io.EOF) && next == largeEvents {
			f.SetSafeBelow(next)
			return nil
		}
		if err != nil {
			return err
		}
		for _, g := range dst[:n] {
			if g.Event != next || !bytes.Equal(g.Data, largeFragment(next)) {
				return fmt.Errorf("event %d has %d bytes, where event %d is due", g.Event, len(g.Data), next)
			}
			next++
		}
		f.SetResumeEvent(next)
		f.ReleaseFragments(n)
		f.SetSafeBelow(next)
	}
}
