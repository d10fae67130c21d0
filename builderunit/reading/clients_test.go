package reading_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/logged"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// consumers are programs of the clients, and how they are started; one that cannot be is skipped aloud.
var consumers = map[string]func(t *testing.T) []string{
	"C": func(t *testing.T) []string {
		return []string{compiled.C(t, "../../clients/c", "testdata/consume.c")}
	},
	"Python": func(t *testing.T) []string {
		return append(interpreted.Python(t, "../../clients/python"), "testdata/consume.py")
	},
}

// olderConsumers are the same with the clients of an earlier release, 226138c3, as they were then.
var olderConsumers = map[string]func(t *testing.T) []string{
	"C of 226138c3": func(t *testing.T) []string {
		return []string{compiled.C(t, "../../clients/frontend/testdata/226138c3/c", "testdata/consume.c")}
	},
	"Python of 226138c3": func(t *testing.T) []string {
		return append(interpreted.Python(t, "../../clients/frontend/testdata/226138c3/python"), "testdata/consume.py")
	},
}

// consumer starts one at an output.
func consumer(t *testing.T, command []string, args ...string) (*exec.Cmd, *logged.Buffer) {
	t.Helper()
	cmd, said := exec.Command(command[0], append(command[1:], args...)...), &logged.Buffer{}
	cmd.Stdout, cmd.Stderr = said, os.Stderr
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, said
}

// TestConsumers holds that the clients, those of an earlier release, too, give every MEP as it was written, know those
// that do not count, and end with the run. The buffer has room for a few MEPs, so that each side waits for the other.
func TestConsumers(t *testing.T) {
	all := maps.Clone(consumers)
	maps.Copy(all, olderConsumers)
	for name, command := range all {
		for _, share := range []bool{false, true} {
			t.Run(fmt.Sprint(name, share), func(t *testing.T) {
				if share && strings.HasPrefix(name, "Python") {
					t.Skip("SKIPPED: Python cannot share MEPs with others, as its manual says")
				}
				start := command(t)
				output := fmt.Sprintf("ringlet-consume-%d-0", time.Now().UnixNano())
				out, err := bufferKind(t).Open(sink.Settings{Output: output, BufferBytes: 1 << 12, SharesEntries: share})
				must.OK(t, err)
				defer func() { _ = out.Abort() }()
				cmd, said := consumer(t, start, output)
				var want strings.Builder
				for k := range uint64(300) {
					mep := mepOf(t, 100*k, int(k%7)+1)
					must.OK(t, out.Write(t.Context(), meta(k, int(k%7)+1), mep))
					sum := 0
					for _, b := range mep {
						sum += int(b)
					}
					fmt.Fprintf(&want, "%d %d %d %d %d\n", k, 100*k, k%7+1, len(mep), sum)
				}
				must.OK(t, out.(*sink.Buffer).Supersede(t.Context(), meta(5, 1)))
				want.WriteString("superseded 5\n")
				_, err = out.Finish()
				must.OK(t, err)
				must.OK(t, patiently.Exit(t, cmd))
				if said.String() != want.String() {
					t.Errorf("%d bytes are said, %d are expected", len(said.String()), want.Len())
				}
			})
		}
	}
}

// TestConsumersMayLose holds that a client which may lose is not waited for, and that what it gives and what it tells
// of as lost is every MEP once.
func TestConsumersMayLose(t *testing.T) {
	for name, command := range consumers {
		t.Run(name, func(t *testing.T) {
			start := command(t)
			output := fmt.Sprintf("ringlet-lose-%d-0", time.Now().UnixNano())
			out, err := bufferKind(t).Open(sink.Settings{Output: output, BufferBytes: 1 << 12})
			must.OK(t, err)
			defer func() { _ = out.Abort() }()
			cmd, said := consumer(t, start, output, "lose")
			const meps = 20000
			for k := range uint64(meps) {
				must.OK(t, out.Write(t.Context(), meta(k, 3), mepOf(t, 100*k, 3)))
			}
			_, err = out.Finish()
			must.OK(t, err)
			must.OK(t, patiently.Exit(t, cmd))
			at, read := uint64(0), 0
			for line := range bytes.Lines([]byte(said.String())) {
				var mep, first, events, size, sum, lost uint64
				if n, _ := fmt.Sscanf(string(line), "lost %d", &lost); n == 1 {
					at += lost
					continue
				}
				_, err := fmt.Sscan(string(line), &mep, &first, &events, &size, &sum)
				must.OK(t, err)
				if mep != at || first != 100*mep {
					t.Fatalf("MEP %d, and %d is expected", mep, at)
				}
				at++
				read++
			}
			if at != meps {
				t.Errorf("%d MEPs of %d are read or lost", at, meps)
			}
			t.Logf("%d read, %d lost", read, meps-read)
		})
	}
}

// bufferKind is the kind of shared-memory outputs.
func bufferKind(t *testing.T) sink.Kind {
	t.Helper()
	for _, r := range sink.Kinds {
		if r.Shared {
			return r
		}
	}
	t.Fatal("there is no shared-memory output")
	return sink.Kind{}
}
