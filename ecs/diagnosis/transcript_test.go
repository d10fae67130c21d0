package diagnosis

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Unix(1_000_000, 0)

// tick is how often a snapshot is made.
const tick = 500 * time.Millisecond

// scene is a partition that does what it is told, or a recording.
type scene struct {
	t      *testing.T
	w      *Watcher
	s      *ecsv1.Snapshot
	tree   *ecsv1.Component
	rates  map[string]float64 // a second, by "NODE COUNTER"
	counts map[string]float64
}

// TestTranscripts plays testdata/*.txt:
//
//	> nodes N [window DURATION]          N folded nodes, Running run 1, version v1; phases by time
//	> rate NODE COUNTER N                the counter of a node (of all: *) grows by so many a second; "total" is the
//	                                     partition
//	> way RU BU SENT RESENT              chunks a second
//	> held RU N P50 P99                  phases a second that waited for it
//	> set NODE FIELD VALUE               a field of its figures, by its name in JSON; "total" and "snapshot" likewise
//	> source ID INPUT                    a live source of n0, which gives nothing yet
//	> call ID NAME                       how its front-end calls it
//	> gives ID|* FRAGMENTS [EVENTS [MISSING]]
//	                                     a second: its newest event goes on by so many, or by its fragments
//	> slots USED/SLOTS… [waiting WORD]   of the builder units
//	> tree NODE error|degraded|excluded|lost|gone|well [[by NODE] WHY]
//	> fault COMPONENT FOLLOWED WHAT      the partition is in Error; names with commas, "-" for nobody; well again:
//	                                     fault -
//	> for DURATION                       time passes: what went on and off is told
//	> alarms                             those that are on
//	> play FILE                          a recording: what went on and off
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		s := &scene{t: t, rates: map[string]float64{}, counts: map[string]float64{}}
		return s.answer
	})
}

func (s *scene) answer(line string) string {
	w := strings.Fields(line)
	switch w[0] {
	case "nodes":
		s.nodes(w[1:])
	case "rate":
		for _, n := range s.names(w[1]) {
			s.rates[n+" "+w[2]] = s.float(w[3])
		}
	case "way":
		t := s.link(uint32(s.float(w[1])), uint32(s.float(w[2])))
		s.rates["way sent "+t], s.rates["way resent "+t] = s.float(w[3]), s.float(w[4])
	case "held":
		s.rates["held "+w[1]] = s.float(w[2])
		h := s.holder(uint32(s.float(w[1])))
		h.ByUsP50, h.ByUsP99 = int64(s.float(w[3])), int64(s.float(w[4]))
	case "set":
		s.set(w[1], w[2], w[3])
	case "source":
		x := &ecsv1.SourceFigures{Source: uint32(s.float(w[1])), Name: w[2], Input: w[2], Node: "n0"}
		if len(w) > 3 { // and its first event
			x.RuIndex, x.FirstEvent = uint32(s.float(w[4])), uint64(s.float(w[6]))
			x.Node = fmt.Sprint("n", w[4])
		}
		s.s.Sources = append(s.s.Sources, x)
	case "call":
		s.s.Sources[int(s.float(w[1]))].Name = w[2]
	case "gives":
		s.gives(w[1:])
	case "slots":
		s.slots(w[1:])
	case "tree":
		s.component(w[1], w[2], strings.Join(w[3:], " "))
	case "fault":
		s.fault(w)
	case "for":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			s.t.Fatal(err)
		}
		return s.pass(d)
	case "alarms":
		return s.activeAlarms()
	case "play":
		return s.play("testdata/" + w[1])
	default:
		s.t.Fatalf("%q is not known", line)
	}
	return ""
}

func (s *scene) float(word string) float64 {
	f, err := strconv.ParseFloat(word, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *scene) nodes(w []string) {
	settings := Settings{Version: "v1"}
	if len(w) == 3 {
		var err error
		if settings.PhaseTime, err = time.ParseDuration(w[2]); err != nil {
			s.t.Fatal(err)
		}
	}
	maps.DeleteFunc(s.counts, func(what string, _ float64) bool { return strings.HasPrefix(what, "source ") })
	s.w = New(settings)
	s.s = &ecsv1.Snapshot{
		At:        timestamppb.New(epoch),
		Run:       1,
		State:     "Running",
		Total:     &ecsv1.Figures{},
		Scheduler: &ecsv1.Scheduler{State: "running"},
	}
	s.tree = &ecsv1.Component{
		Name:     "partition",
		Kind:     "partition",
		State:    "Running",
		Included: true,
	}
	s.rates["total events_built"] = 1000
	for i := range uint32(s.float(w[0])) {
		name := fmt.Sprintf("n%d", i)
		s.s.Nodes = append(s.s.Nodes, &ecsv1.NodeFigures{
			Name:     name,
			State:    "Running",
			Version:  "v1",
			Readout:  true,
			RuIndex:  i,
			Builder:  true,
			BuIndex:  i,
			Counters: map[string]uint64{},
		})
		s.tree.Children = append(s.tree.Children, &ecsv1.Component{
			Name:     name,
			Kind:     "node",
			State:    "Running",
			Included: true,
		})
	}
}

func (s *scene) names(word string) (out []string) {
	for _, n := range s.s.GetNodes() {
		if word == "*" || word == n.GetName() {
			out = append(out, n.GetName())
		}
	}
	if len(out) == 0 {
		out = []string{word}
	}
	return out
}

func (s *scene) link(ru, bu uint32) string {
	has := func(t *ecsv1.Traffic) bool { return t.GetRu() == ru && t.GetBu() == bu }
	if !slices.ContainsFunc(s.s.GetTraffic(), has) {
		s.s.Traffic = append(s.s.Traffic, &ecsv1.Traffic{Ru: ru, Bu: bu})
	}
	return fmt.Sprint(ru, " ", bu)
}

func (s *scene) holder(ru uint32) *ecsv1.Holder {
	for _, h := range s.s.GetHolders() {
		if h.GetRu() == ru {
			return h
		}
	}
	s.s.Holders = append(s.s.Holders, &ecsv1.Holder{Ru: ru})
	return s.s.Holders[len(s.s.Holders)-1]
}

// set merges one field, by its name in JSON.
func (s *scene) set(of, field, value string) {
	text, err := json.Marshal(map[string]string{field: value})
	if err != nil {
		s.t.Fatal(err)
	}
	if value == "true" || value == "false" {
		text = fmt.Appendf(nil, "{%q: %s}", field, value)
	}
	var to proto.Message = s.s
	one := proto.Message(&ecsv1.Snapshot{})
	if of == "total" {
		to, one = s.s.GetTotal(), &ecsv1.Figures{}
	}
	for _, n := range s.s.GetNodes() {
		if n.GetName() == of {
			to, one = n, &ecsv1.NodeFigures{}
		}
	}
	if err := protojson.Unmarshal(text, one); err != nil {
		s.t.Fatal(err)
	}
	if d := one.ProtoReflect().Descriptor().Fields().ByJSONName(field); !one.ProtoReflect().Has(d) {
		to.ProtoReflect().Clear(d) // it was set to nothing
	}
	proto.Merge(to, one)
}

// gives sets what a source does each second.
func (s *scene) gives(w []string) {
	for _, x := range s.s.GetSources() {
		if key := fmt.Sprint("source ", x.GetSource(), " "); w[0] == "*" || w[0] == fmt.Sprint(x.GetSource()) {
			s.rates[key+"fragments"], s.rates[key+"event"], s.rates[key+"missing"] = s.float(w[1]), s.float(w[1]), 0
			if len(w) > 2 {
				s.rates[key+"event"] = s.float(w[2])
			}
			if len(w) > 3 {
				s.rates[key+"missing"] = s.float(w[3])
			}
		}
	}
}

func (s *scene) slots(w []string) {
	c := s.s.GetScheduler()
	c.Slots, c.WaitingFor = nil, ""
	for i, word := range w {
		if word == "waiting" {
			c.WaitingFor = w[i+1]
			return
		}
		used, of, _ := strings.Cut(word, "/")
		c.Slots = append(c.Slots, &ecsv1.SlotUse{Bu: uint32(i), Used: uint64(s.float(used)), Slots: uint64(s.float(of))})
	}
}

func (s *scene) component(name, how, why string) {
	for _, c := range s.tree.GetChildren() {
		if c.GetName() == name {
			gone := how == "lost" || how == "gone"
			c.InError, c.Degraded, c.Included, c.Cause = how == "error" || gone, how == "degraded", how != "excluded" && !gone,
				nil
			if why != "" {
				c.Cause = &ecsv1.Cause{What: why}
			}
			if by, ok := strings.CutPrefix(why, "by "); ok {
				c.Cause.Component, c.Cause.What, _ = strings.Cut(by, " ")
			}
			if gone {
				c.Cause.Code, c.Cause.Component, c.Cause.Advice = how, name, "Start its process again."
			}
		}
	}
}

// fault puts the partition in Error, or out of it.
func (s *scene) fault(w []string) {
	s.tree.InError, s.tree.Cause, s.s.State = w[1] != "-", nil, "Running"
	if !s.tree.GetInError() {
		return
	}
	s.s.State, s.s.Run = "Error", 0
	s.tree.Cause = &ecsv1.Cause{Component: w[1], What: strings.Join(w[3:], " "), Advice: "Start its process again."}
	if w[2] != "-" {
		s.tree.Cause.Followed = strings.Split(w[2], ",")
	}
}

// pass makes the snapshots of some time.
func (s *scene) pass(d time.Duration) string {
	var b strings.Builder
	for range int(d / tick) {
		s.grow()
		one := proto.Clone(s.s).(*ecsv1.Snapshot)
		_, changes := s.w.Update(one, s.tree)
		b.WriteString(changesText(one, epoch, changes))
	}
	return b.String()
}

// grow makes counters grow for one tick.
func (s *scene) grow() {
	s.s.At = timestamppb.New(s.s.GetAt().AsTime().Add(tick))
	for what, rate := range s.rates {
		s.counts[what] += rate * tick.Seconds()
	}
	for _, n := range s.s.GetNodes() {
		for what, v := range s.counts {
			if counter, found := strings.CutPrefix(what, n.GetName()+" "); found {
				n.Counters[counter] = uint64(v)
			}
		}
	}
	for _, t := range s.s.GetTraffic() {
		key := fmt.Sprint(t.GetRu(), " ", t.GetBu())
		t.ChunksSent, t.ChunksResent = uint64(s.counts["way sent "+key]), uint64(s.counts["way resent "+key])
	}
	for _, h := range s.s.GetHolders() {
		h.Epochs = uint64(s.counts[fmt.Sprintf("held %d", h.GetRu())])
	}
	for _, x := range s.s.GetSources() {
		of := func(what string) uint64 { return uint64(s.counts[fmt.Sprint("source ", x.GetSource(), " ", what)]) }
		x.Fragments, x.Used, x.Missing, x.LastEvent = of("fragments"), of("fragments"), of("missing"),
			x.GetFirstEvent()+of("event")
		x.MissingPerS = s.rates[fmt.Sprint("source ", x.GetSource(), " missing")]
	}
	s.s.ElapsedS += tick.Seconds()
	t := s.s.GetTotal()
	t.EventsBuilt, t.EventsDiscarded = uint64(s.counts["total events_built"]), uint64(s.counts["total events_discarded"])
	t.ChunksSent, t.ChunksResent = uint64(s.counts["total chunks_sent"]), uint64(s.counts["total chunks_resent"])
}

// changesText says what changed with a snapshot.
func changesText(s *ecsv1.Snapshot, since time.Time, changes []AlarmChange) string {
	var b strings.Builder
	for _, c := range changes {
		at := s.GetAt().AsTime().Sub(since).Seconds()
		if c.Cleared {
			fmt.Fprintf(&b, "%.1f s: - %s\n", at, c.Alarm.GetRule())
			continue
		}
		fmt.Fprintf(&b, "%.1f s: + %s, %s: %s\n", at, severity(c.Alarm), c.Alarm.GetRule(), c.Alarm.GetWhat())
	}
	return b.String()
}

func severity(a *ecsv1.Alarm) string {
	return strings.ToLower(strings.TrimPrefix(a.GetSeverity().String(), "SEVERITY_"))
}

func (s *scene) activeAlarms() string {
	var b strings.Builder
	for _, a := range s.w.alarms() {
		fmt.Fprintf(&b, "%s: %s\n   since %.1f s. %s\n", a.GetRule(), a.GetWhat(), a.GetSince().AsTime().Sub(epoch).Seconds(),
			a.GetAdvice())
	}
	return b.String()
}

// play looks at the snapshots of a recording, made by TestRecord.
func (s *scene) play(file string) string {
	f, err := os.Open(file)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		s.t.Fatal(err)
	}
	w := New(Settings{Version: recordedVersion})
	var b strings.Builder
	var begun time.Time
	for line := range strings.Lines(string(text)) {
		var one ecsv1.Snapshot
		if err := protojson.Unmarshal([]byte(line), &one); err != nil {
			s.t.Fatal(err)
		}
		if begun.IsZero() {
			begun = one.GetAt().AsTime()
		}
		_, changes := w.Update(&one, nil)
		b.WriteString(changesText(&one, begun, changes))
	}
	return b.String()
}
