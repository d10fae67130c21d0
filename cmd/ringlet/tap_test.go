package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

// TestTapOverRuns has a viewer look from before the first run until it has enough, over two runs of a partition, while
// another one's pipe breaks and a third has no right to look.
func TestTapOverRuns(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "n0", "n1", "--user", "vera:viewer")
	port, api := s.port(), net.JoinHostPort(loopback, s.port())
	c := s.serve(port, "--api", api, "--nodes", "2", "--packing", "100", "--rate", "20000")
	for _, name := range []string{"n0", "n1"} {
		n := s.startNode(name, "keys", port)
		eventually(t, "the node is there", func() bool { return strings.Contains(n.err.String(), "waiting for the control") })
	}
	ask := []string{"tap", "--control", api, "--certs", "keys", "--user"}
	tap := s.start(append(ask, "vera", "--rate", "100")...)
	eventually(t, "it waits", func() bool { return strings.Contains(tap.err.String(), "no builder unit is there yet") })
	s.start(append(ask, "n0")...).ends(5)

	seen := map[int]map[string]bool{} // builders by run
	look := func() {
		clear(seen)
		for line := range strings.Lines(tap.out.String()) {
			var e struct {
				Run     int
				Builder string
				Sources []struct{ Size int }
			}
			if !strings.HasSuffix(line, "\n") {
				return
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || len(e.Sources) != 6 {
				t.Fatalf("%v in %s", err, line)
			}
			if seen[e.Run] == nil {
				seen[e.Run] = map[string]bool{}
			}
			seen[e.Run][e.Builder] = true
		}
	}
	for run := range 2 {
		c.must("load", "configure", "start")
		eventually(t, "events of both builder units are shown", func() bool {
			look()
			_, number := c.state()
			return len(seen) == run+1 && len(seen[number]) == 2
		})
		if run == 0 {
			s.breaks(append(ask, "vera", "--rate", "1000")...)
		}
		c.must("stop", "reset", "unload")
	}
}

// breaks starts ringlet, reads one line, and closes the pipe. It must end well, with nothing to say.
func (s *session) breaks(args ...string) {
	s.t.Helper()
	cmd := exec.Command("ringlet", args...)
	cmd.Dir = s.dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		stop := time.AfterFunc(patiently.LongTimeout, func() { _ = cmd.Process.Kill() })
		_, err = bufio.NewReader(io.LimitReader(out, 1<<10)).ReadString('\n')
		stop.Stop()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	_ = out.Close()
	stop := time.AfterFunc(patiently.LongTimeout, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	if err := patiently.Exit(s.t, cmd); err != nil || said.Len() > 0 {
		s.t.Errorf("with a broken pipe it ends with %v and says %q", err, said.String())
	}
}
