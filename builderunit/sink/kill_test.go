package sink

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"ringlet/event/pattern"
	"ringlet/recording"
	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// The child of TestKilled is this test binary again, told so by these variables.
const (
	childDir        = "RINGLET_TEST_SINK_DIR"
	childKey        = "RINGLET_TEST_SINK_KEY"
	childDurability = "RINGLET_TEST_SINK_DURABILITY"
	childFormat     = "RINGLET_TEST_SINK_FORMAT"
)

// TestWriteUntilKilled is the child: it writes MEPs until it is killed, flushes after some, and says so.
func TestWriteUntilKilled(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("SKIPPED: it is the child of TestKilled")
	}
	p := testPattern(t)
	d, errD := recording.ParseDurability(os.Getenv(childDurability))
	format, errF := recording.ParseFormat(os.Getenv(childFormat))
	key, errK := recording.ParseKey(os.Getenv(childKey))
	must.OK(t, errors.Join(errD, errF, errK))
	s, err := NewSegments(SegmentsConfig{
		Dir:             dir,
		Run:             9,
		Key:             key,
		Format:          format,
		MaxSegmentBytes: 500_000,
		Durability:      d,
	})
	must.OK(t, err)
	for k := uint64(0); ; k++ {
		m, mep := killedMEP(t, p, k)
		must.OK(t, s.Write(t.Context(), m, mep))
		if k%3 == 0 {
			must.OK(t, s.Flush())
			fmt.Printf("flushed %d\n", k)
		}
	}
}

// killedMEP is MEP k of the child; its size depends on k.
func killedMEP(t must.TB, p *pattern.Pattern, k uint64) (Meta, []byte) {
	return buildMEP(t, p, k, testPacking, []int{0, 0, 50, 3000, 30_000}[k%5])
}

// TestKilled kills a process that writes, at random moments. Every MEP whose Flush it had reported is there after
// Recover.
func TestKilled(t *testing.T) {
	times := cases.Count(12, 3)
	p := testPattern(t)
	for i := range times {
		d := []recording.Durability{recording.DurabilityFile, recording.DurabilityDisk}[i%2]
		r := newRun(t, t.TempDir(), formats[i%3])
		last := r.kill(t, d, rand.IntN(150))
		found, err := recording.Recover(t.Context(), r.dir)
		must.OK(t, err)
		for _, f := range found {
			if f.Err != nil || f.WriterLives {
				t.Error(f.String())
			}
		}
		got := r.readBack(t, tails(t, r.runDir)...)
		for k := range uint64(last + 1) {
			m, mep := killedMEP(t, p, k)
			if !bytes.Equal(got[mepAt{k, 0}], encoded(t, r.format, m, mep)) {
				t.Fatalf("%v: MEP %d was flushed, up to %d were, and is not there: %v", d, k, last, found)
			}
		}
		if s := r.state(t, 0); s != recording.StateRecovered {
			t.Errorf("the builder unit is %s", s)
		}
		if again, err := recording.Recover(t.Context(), r.dir); err != nil || len(again) != 0 {
			t.Errorf("a second time %v was found: %v", again, err)
		}
	}
}

// kill has a child write until it has reported some flushes, kills it, and gives the last MEP that it reported.
func (r *testRun) kill(t *testing.T, d recording.Durability, reports int) (last int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriteUntilKilled$", "-test.v=false")
	child.Env = append(os.Environ(), childDir+"="+r.runDir, childKey+"="+r.key.String(), childDurability+"="+d.String(),
		childFormat+"="+r.format.String())
	out, err := child.StdoutPipe()
	must.OK(t, err)
	child.Stderr = os.Stderr
	must.OK(t, child.Start())
	last = -1
	lines := bufio.NewScanner(out)
	for n := 0; patiently.Result(t, lines.Scan, "the child said nothing more"); n++ {
		word, number, _ := strings.Cut(lines.Text(), " ")
		k, err := strconv.Atoi(number)
		if word != "flushed" || err != nil {
			t.Fatalf("the child says %q", lines.Text())
		}
		last = k
		if n == reports {
			must.OK(t, child.Process.Kill())
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err := patiently.Exit(t, child); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return last
}
