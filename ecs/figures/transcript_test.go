package figures

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"

	"ringlet/node"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
	"ringlet/testkit/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a Builder and what it is told.
type scene struct {
	t *testing.T
	b *Builder
	r Reading
}

var epoch = time.UnixMicro(1_000_000_000)

// TestTranscripts plays testdata/*.txt. Times are ms since an epoch.
//
//	> node NAME [ru N] [bu N]            it is in the view
//	> source ID NAME ru N                a live one
//	> run N at MS                        the partition runs it
//	> report NAME at MS KEY=VALUE…       it came then; made=MS is the node's clock, run=N, final, to.PEER=bytes,resent,
//	                                     held.RU=µs×times, step=phase,bu,mep,begin,sent,released; other keys are counters
//	> scheduler [KEY=VALUE…]             built=, events=, in_flight=, waiting, slots=used/all,…, latency=µs×times
//	> add at MS                          a snapshot is made
//	> samples N                          the last ones
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		s := &scene{t: t, b: New()}
		return s.answer
	})
}

func (s *scene) answer(line string) string {
	w := strings.Fields(line)
	switch w[0] {
	case "node":
		m := &nodev1.Member{Name: w[1], Rank: uint32(len(s.r.Nodes))}
		for i := 2; i+1 < len(w); i += 2 {
			n := uint32(transcript.Number(s.t, w[i+1]))
			if w[i] == "ru" {
				m.Readout, m.RuIndex = true, n
			} else {
				m.Builder, m.BuIndex = true, n
			}
		}
		s.r.Nodes = append(s.r.Nodes, Node{Member: m})
	case "source":
		s.r.Sources = append(s.r.Sources, Source{
			ID: transcript.Number(s.t, w[1]), Name: w[2], RU: transcript.Number(s.t, w[4]),
		})
	case "run":
		s.r.Run, s.r.State, s.r.RunBegan = uint32(transcript.Number(s.t, w[1])), "Running", s.timeAt(w[3])
	case "report":
		s.report(w[1], s.timeAt(w[3]), w[4:])
	case "scheduler":
		s.scheduler(w[1:])
	case "add":
		s.r.At = s.timeAt(w[2])
		return show(s.b.Add(&s.r))
	case "samples":
		var b strings.Builder
		for _, x := range s.b.Samples(transcript.Number(s.t, w[1])) {
			fmt.Fprintf(&b, "%d ms: run %d, %.0f Hz, %.0f B/s, %.0f chunks/s re-sent\n",
				x.GetAt().AsTime().Sub(epoch).Milliseconds(), x.GetRun(),
				x.GetEventRateHz(), x.GetThroughputBytesPerS(), x.GetResentChunksPerS())
		}
		return b.String()
	default:
		s.t.Fatalf("%q is not known", line)
	}
	return ""
}

func (s *scene) timeAt(ms string) time.Time {
	return epoch.Add(time.Duration(s.float(ms) * float64(time.Millisecond)))
}

func (s *scene) float(word string) float64 {
	f, err := strconv.ParseFloat(word, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// times reads µs×times.
func (s *scene) times(text string) *hdr.Histogram {
	us, n, _ := strings.Cut(text, "×")
	h := hdr.New(1, int64(time.Hour/time.Microsecond), 3)
	if err := h.RecordValues(int64(s.float(us)), int64(s.float(n))); err != nil {
		s.t.Fatal(err)
	}
	return h
}

func (s *scene) report(name string, at time.Time, words []string) {
	rep := &nodev1.Report{
		Name:       name,
		Run:        s.r.Run,
		AtUs:       at.UnixMicro(),
		Status:     &nodev1.Status{State: "Running"},
		Counters:   map[string]uint64{},
		Histograms: map[string][]byte{},
		Frontends:  map[uint32]string{},
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "made":
			rep.AtUs = s.timeAt(value).UnixMicro()
		case key == "run":
			rep.Run = uint32(s.float(value))
		case key == "final":
			rep.Final = true
		case key == "cpu":
			rep.CpuSeconds = s.float(value)
		case strings.HasPrefix(key, "to."):
			bytes, resent, _ := strings.Cut(value, ",")
			rep.Links = append(rep.Links, &nodev1.Link{
				Peer: strings.TrimPrefix(key, "to."), BytesWritten: uint64(s.float(bytes)), ChunksResent: uint64(s.float(resent)),
			})
		case strings.HasPrefix(key, "from."):
			rep.Frontends[uint32(s.float(strings.TrimPrefix(key, "from.")))] = value
		case strings.HasPrefix(key, "held."):
			b, err := s.times(value).Encode(hdr.V2CompressedEncodingCookieBase)
			if err != nil {
				s.t.Fatal(err)
			}
			rep.Histograms[node.HistogramHeld+strings.TrimPrefix(key, "held.")] = b
		case key == "step":
			var n [6]int64
			for i, f := range strings.Split(value, ",") {
				n[i] = int64(s.float(f))
			}
			rep.Timeline = append(rep.Timeline, &nodev1.Step{
				Phase:      uint64(n[0]),
				Builder:    int32(n[1]),
				Mep:        uint64(n[2]),
				BeginUs:    n[3],
				SentUs:     n[4],
				ReleasedUs: n[5],
			})
		default:
			rep.Counters[key] = uint64(s.float(value))
		}
	}
	for i := range s.r.Nodes {
		if s.r.Nodes[i].Member.GetName() == name {
			s.r.Nodes[i].Report, s.r.Nodes[i].Received = rep, at
		}
	}
}

func (s *scene) scheduler(words []string) {
	reg := &core.Registers{State: tagnetv1.State_STATE_RUNNING, Counters: &core.Counters{}}
	st := &core.Stats{Registers: reg, Latency: hdr.New(1, 1000, 3)}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "built":
			reg.Counters.Built = uint64(s.float(value))
		case "events":
			reg.Counters.EventsBuilt = uint64(s.float(value))
		case "in_flight":
			reg.InFlight = uint64(s.float(value))
		case "waiting":
			reg.WaitingFor = core.WaitForSlots.String()
		case "latency":
			st.Latency = s.times(value)
		case "slots":
			for _, use := range strings.Split(value, ",") {
				used, of, _ := strings.Cut(use, "/")
				reg.Bus = append(reg.Bus, &core.BURegister{Used: &tagnetv1.Depth{Now: uint64(s.float(used)),
					Capacity: uint64(s.float(of))}})
			}
		}
	}
	s.r.Scheduler, s.r.SchedulerNode = st, "n0"
}

// show says what is not nothing in a snapshot.
func show(s *ecsv1.Snapshot) string {
	var b strings.Builder
	t := s.GetTotal()
	fmt.Fprintf(&b, "run %d %s, %.1f s: %.0f Hz, %.0f B/s; events %d, bytes %d, in flight %d, chunks %d of which "+
		"re-sent %d\n", s.GetRun(), s.GetState(),
		s.GetElapsedS(), t.GetEventRateHz(), t.GetThroughputBytesPerS(), t.GetEventsBuilt(), t.GetBytesBuilt(),
		t.GetMepsInFlight(), t.GetChunksSent(),
		t.GetChunksResent())
	for _, n := range s.GetNodes() {
		fmt.Fprintf(&b, "%s %s: sends %.0f B/s, builds %.0f B/s, %.2f processors, told %d ms ago, clock %+d µs", n.GetName(),
			n.GetState(), n.GetSentBytesPerS(),
			n.GetBuiltBytesPerS(), n.GetCpus(), n.GetReportAgeMs(), n.GetClockOffsetUs())
		if n.GetSilent() {
			b.WriteString(", silent")
		}
		b.WriteString("\n")
	}
	for _, x := range s.GetSources() {
		fmt.Fprintf(&b, "source %d, %s of ru%d on %q: %.0f fragments/s, %.0f B/s of %.0f B each, %.1f missing/s; %d "+
			"fragments, %d missing, %d thrown away, event %d, %d ms old",
			x.GetSource(), x.GetName(), x.GetRuIndex(), x.GetNode(), x.GetFragmentsPerS(), x.GetBytesPerS(), x.GetMeanSize(),
			x.GetMissingPerS(), x.GetFragments(), x.GetMissing(), x.GetThrown(), x.GetLastEvent(), x.GetAgeUs()/1000)
		if x.GetFrontend() != "" {
			fmt.Fprintf(&b, ", from %s", x.GetFrontend())
		}
		if x.GetSilent() {
			b.WriteString(", silent")
		}
		b.WriteString("\n")
	}
	for _, x := range s.GetTraffic() {
		fmt.Fprintf(&b, "ru%d to bu%d: %d bytes, %.0f B/s, %d chunks re-sent\n", x.GetRu(), x.GetBu(), x.GetBytes(),
			x.GetBytesPerS(), x.GetChunksResent())
	}
	for _, x := range s.GetTimeline() {
		fmt.Fprintf(&b, "phase %d: ru%d sends MEP %d to bu%d at %d, %d, %d\n", x.GetPhase(), x.GetRu(), x.GetMep(), x.GetBu(),
			x.GetBeginUs(), x.GetSentUs(), x.GetReleasedUs())
	}
	for _, h := range s.GetHolders() {
		fmt.Fprintf(&b, "ru%d held %d phases, by %d and %d µs\n", h.GetRu(), h.GetEpochs(), h.GetByUsP50(), h.GetByUsP99())
	}
	if c := s.GetScheduler(); c != nil {
		fmt.Fprintf(&b, "scheduler on %s %s, waits for %q, slots", c.GetNode(), c.GetState(), c.GetWaitingFor())
		for _, u := range c.GetSlots() {
			fmt.Fprintf(&b, " %d/%d", u.GetUsed(), u.GetSlots())
		}
		b.WriteString("\n")
	}
	if l := s.GetLatency(); l != nil {
		fmt.Fprintf(&b, "latency %d, %d, %d, %d µs;", l.GetP50Us(), l.GetP99Us(), l.GetP999Us(), l.GetMaxUs())
		for _, bar := range l.GetBars() {
			fmt.Fprintf(&b, " %d in [%d, %d)", bar.GetCount(), bar.GetFromUs(), bar.GetToUs())
		}
		b.WriteString("\n")
	}
	return b.String()
}
