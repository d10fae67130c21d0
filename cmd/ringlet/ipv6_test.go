package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ringlet/event"
	"ringlet/recording"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/testkit/ports"
)

// TestOverIPv6 holds that nothing of a cluster needs IPv4: certificates, gossip, API, page, monitor, links, sources
// over TCP and UDP, an output over UDP, and the doctor.
func TestOverIPv6(t *testing.T) {
	t.Parallel()
	arriving, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skip("SKIPPED: this machine has no IPv6: ", err)
	}
	defer func() { _ = arriving.Close() }()
	const events = 400
	s := newSession(t)
	s.certs("keys", "n0", "n1", "--user", "ada:admin", "--host", "::1")
	at := func() string { return net.JoinHostPort("::1", strconv.Itoa(ports.Reserve(t))) }
	gossip, api, page, monitor, frames, packets := s.port(), at(), at(), at(), at(), at()
	var nodes []*program
	for _, name := range []string{"n0", "n1"} {
		nodes = append(nodes, s.start("node", "--name", name, "--certs", "keys", "--host", "::1", "--join",
			net.JoinHostPort("::1", gossip), "--allow", "output:"+s.dir))
	}
	control := s.start("control", "--certs", "keys", "--host", "::1", "--port", gossip, "--api", api, "--page", page,
		"--monitor", monitor, "--state", "state", "--nodes", "2", "--packing", "50", "--events", strconv.Itoa(events),
		"--run-number", s.run, "--input", "tcp:"+frames+",udp:"+packets, "--output-by", "all",
		"--output", "mep:"+filepath.Join(s.dir, "out")+"/,udp:"+arriving.LocalAddr().String())
	eventually(t, "both nodes have joined", func() bool {
		answer, err := http.Get("http://" + monitor + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	})
	asked := func(what ...string) {
		t.Helper()
		s.start(append([]string{"ctl", "--control", api, "--certs", "keys", "--user", "ada"}, what...)...).ends(0)
	}
	asked("load", "configure", "start")
	sender := s.startCommand("frontend", strconv.Itoa(events), "2000", "100", fmt.Sprint(1<<62), "tcp:"+frames, ".")
	other := s.start("run", "--nodes", "1", "--events", strconv.Itoa(events), "--rate", "2000", "--packing", "50",
		"--run-number", strconv.Itoa(int(newRunNumber())), "--output", "udp:"+packets)
	checkServed(t, page)
	asked("wait", patiently.LongTimeout.String(), "end")
	sender.ends(0)
	other.ends(0)
	first := make([]byte, 1<<16)
	must.OK(t, arriving.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
	n, _, err := arriving.ReadFrom(first)
	if err != nil || !bytes.HasPrefix(first[:n], []byte("LB")) {
		t.Errorf("the output over UDP gave %q: %v", first[:min(n, 20)], err)
	}
	s.start("verify", "out").ends(0)
	for source, n := range arrivals(t, filepath.Join(s.dir, "out")) {
		if n == 0 {
			t.Errorf("of source %d nothing arrived", source)
		}
	}
	doctor := s.start("doctor", "--host", "::1", "--peer", "::1", "--clock", "http://"+monitor+"/livez")
	doctor.ends(0)
	if said := doctor.out.String(); !regexp.MustCompile(`ok +path to ::1`).MatchString(said) {
		t.Errorf("the doctor says of the path: %s", said)
	}
	for _, p := range append(nodes, control) {
		s.signal(p.cmd.Process.Pid, syscall.SIGTERM)
		p.ends(0)
	}
	s.nothingLeft("keys", "out", "state")
}

// checkServed holds that the page is there.
func checkServed(t *testing.T, page string) {
	t.Helper()
	answer, err := http.Get("http://" + page + "/")
	must.OK(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("<title>Ringlet</title>")) {
		t.Errorf("the page gives %s, %d bytes: %v", answer.Status, len(text), err)
	}
}

// arrivals counts the fragments of the two sources of a recording that are not missing.
func arrivals(t *testing.T, out string) (n [2]int) {
	t.Helper()
	runs, err := recording.Runs(out)
	must.OK(t, err)
	c, err := recording.Read(t.Context(), runs[0])
	must.OK(t, err)
	must.OK(t, c.EachInOrder(t.Context(), 0, func(p *recording.RecordedMEP) error {
		mep, err := event.ParseMEP(p.Data)
		must.OK(t, err)
		for source := range n {
			mfp, err := mep.MFP(source)
			must.OK(t, err)
			for c := mfp.Cursor(); c.Next(); {
				if c.Type() != event.FragmentMissing {
					n[source]++
				}
			}
		}
		return p.Err
	}))
	return n
}
