package diagnosis

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestRulesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(r.ID) || seen[r.ID] || r.find == nil || r.Severity == 0 {
			t.Errorf("%q: no name, twice there, without severity or without a condition", r.ID)
		}
		seen[r.ID] = true
		for _, s := range []string{r.When, r.Advice} {
			if !strings.HasSuffix(s, ".") || strings.Contains(s, "  ") {
				t.Errorf("%s: %q is no sentence", r.ID, s)
			}
		}
	}
}

// Whatever is told, in whatever order, no rule breaks, each alarm is on once, and what it says is whole.
func TestAnythingCanBeLookedAt(t *testing.T) {
	counters := []string{
		"ru.meps_read", "ru.source_us", "ru.phases", "ru.overruns", "ru.bad_input", "bu.sink_us", "bu.meps_built",
		"bu.bytes_built", "bu.suspensions",
		"socket.kernel_drops", "socket.not_taken", "socket.sent_packets", "node.bad_signals", "link.datagrams_dropped",
	}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64())
		w, at := New(Settings{Version: "v1", PhaseTime: time.Duration(rapid.IntRange(0, 1).Draw(t, "window"))}),
			time.Unix(0, 0)
		for range rapid.IntRange(1, 8).Draw(t, "snapshots") {
			at = at.Add(time.Duration(rapid.Int64Range(-1000, 4000).Draw(t, "ms")) * time.Millisecond)
			s := &ecsv1.Snapshot{
				At:    timestamppb.New(at),
				Run:   rapid.Uint32Range(0, 2).Draw(t, "run"),
				State: rapid.SampledFrom([]string{"Running", "Ready", ""}).Draw(t, "state"),
				Total: &ecsv1.Figures{
					EventsBuilt:     number.Draw(t, "built"),
					EventsDiscarded: number.Draw(t, "discarded"),
					ChunksSent:      number.Draw(t, "sent"),
					ChunksResent:    number.Draw(t, "resent"),
				},
				Scheduler: &ecsv1.Scheduler{WaitingFor: rapid.SampledFrom([]string{"", "input", "slots", "start"}).Draw(t,
					"waiting")},
			}
			for i := range uint32(rapid.IntRange(0, 3).Draw(t, "nodes")) {
				n := &ecsv1.NodeFigures{
					Name:          fmt.Sprint("n", i),
					Readout:       rapid.Bool().Draw(t, "readout"),
					RuIndex:       i,
					Builder:       rapid.Bool().Draw(t, "builder"),
					BuIndex:       i,
					Counters:      map[string]uint64{},
					ReportAgeMs:   number.Draw(t, "age"),
					Silent:        rapid.Bool().Draw(t, "silent"),
					ClockOffsetUs: rapid.Int64().Draw(t, "clock"),
					RssBytes:      number.Draw(t, "rss"),
					MemoryBytes:   number.Draw(t, "memory"),
					DiskBytes:     number.Draw(t, "disk"),
					Version:       "v1",
				}
				for _, c := range counters {
					n.Counters[c] = number.Draw(t, c)
				}
				s.Nodes = append(s.Nodes, n)
				s.Traffic = append(s.Traffic, &ecsv1.Traffic{
					Ru:           i,
					Bu:           0,
					ChunksSent:   number.Draw(t, "way"),
					ChunksResent: number.Draw(t, "again"),
				})
				s.Holders = append(s.Holders, &ecsv1.Holder{Ru: i, Epochs: number.Draw(t, "epochs"),
					ByUsP50: rapid.Int64().Draw(t, "by")})
				s.Scheduler.Slots = append(s.Scheduler.Slots, &ecsv1.SlotUse{Bu: i, Used: number.Draw(t, "used"),
					Slots: number.Draw(t, "slots")})
			}
			alarms, _ := w.Update(s, nil)
			once := map[string]bool{}
			for _, a := range alarms {
				if id := a.GetRule() + " " + a.GetComponent(); once[id] {
					t.Fatalf("%s is on twice", id)
				} else {
					once[id] = true
				}
				if strings.Contains(a.GetWhat(), "%!") || strings.Contains(a.GetWhat(), "NaN") ||
					strings.Contains(a.GetWhat(), "Inf") || a.GetComponent() == "" {
					t.Fatalf("%s of %q says %q", a.GetRule(), a.GetComponent(), a.GetWhat())
				}
			}
		}
	})
}
