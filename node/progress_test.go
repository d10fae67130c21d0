package node

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/node/fsm"
	"ringlet/shmem"
	"ringlet/transport"
)

// steadySink writes for so long while it finishes, and then stands still until it is aborted.
type steadySink struct {
	sink.Discard
	writes time.Duration
	stuck  chan struct{} // nil: it comes to its end
	bytes  atomic.Uint64
}

func (s *steadySink) Written() uint64 { return s.bytes.Load() }

func (s *steadySink) Finish() (sink.Result, error) {
	for began := time.Now(); time.Since(began) < s.writes; {
		time.Sleep(time.Second)
		s.bytes.Add(1 << 20)
	}
	if s.stuck != nil {
		<-s.stuck // bounded by the bubble, in which the stop gives up
	}
	return sink.Result{MEPs: 3}, nil
}

// A stop that writes its output is not cut, however long that takes; one that stands still is, when it has for
// stopTimeout.
func TestStopWaitsForTheOutput(t *testing.T) {
	for name, tc := range map[string]struct {
		writes time.Duration
		stuck  bool
		takes  time.Duration
	}{
		"ten minutes":   {writes: 10 * time.Minute, takes: 10 * time.Minute},
		"then it hangs": {writes: 2 * time.Minute, stuck: true, takes: 2*time.Minute + stopTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &steadySink{writes: tc.writes}
				if tc.stuck {
					out.stuck = make(chan struct{})
				}
				s := &session{base: base{node: &process{}}}
				s.components = []component{
					&output{base: &s.base, writes: &runOutput{sink: out, closed: make(chan struct{})}},
				}
				s.endpoint = transport.New(transport.Config{
					Handler: s, Table: shmem.NewTable(1), View: transport.View{Members: []transport.Member{{Name: "n0"}}},
				})
				defer func() { _ = s.endpoint.Close() }()
				runner := fsm.New("n0", fsm.Actions{fsm.Stop: func(ctx context.Context) error {
					ctx, cancel := s.withStallTimeout(ctx)
					defer cancel()
					return s.stop(ctx, false)
				}}, fsm.Options{Timeouts: fsm.Timeouts{fsm.Stop: stopTimeout}})
				if err := runner.Adopt(fsm.Running); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err := runner.Command(t.Context(), fsm.Stop)
				if took := time.Since(began).Round(time.Second); err != nil || took != tc.takes ||
					runner.Status().Forced.IsZero() == tc.stuck {
					t.Errorf("it took %v, not %v: %v, by force %v", took, tc.takes, err, runner.Status().Forced)
				}
				if tc.stuck {
					close(out.stuck)
				}
				if err := runner.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
