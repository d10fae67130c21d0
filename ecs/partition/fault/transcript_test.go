package fault

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt, each of several disturbances:
//
//	> nodes N [sharing K] [reading POLICY] [loss POLICY] [on HOST…] [tagnet NODE] [spawned]
//	                                           folded nodes n0 and so on; processes 1000 and so on, each of K nodes
//	> units RUS BUS [reading POLICY] loss POLICY [on HOST…]  nodes of one unit each, readout units first
//	> begin                                      a run goes on, and every node is heard
//	> at SECONDS                                 so late it is since then
//	> asleep                                     the control stands still until the next "at"
//	> heard NODE…                                they report
//	> ended NODE HOW                             its parent saw its process end
//	> vanished NODE WHAT                         nobody listens any more where it did
//	> missing NODE WHAT                          the control hears nothing of it any more
//	> NODE says OTHER PART[/TROUBLE] WHAT        it has given up and names the other, or itself
//	> NODE says OTHER PART closed WHAT           likewise, of a link that the other has closed
//	> NODE lost OTHER                            its link is down and it goes on
//	> NODE finds OTHER WHAT                      data of a readout unit do not fit, and it goes on without them
//	> scheduler lost NODE PART WHAT
//	> control fault PART WHAT
//	> exclude|include NODE
//	> back NODE                                another process has its place
//	> NODE asks|tells MOVED|is done            it was told to end; so much has moved; it tells its final report
//	> undo NODE                                what its departure wants could not be done
//	> ends                                     the run is to end
//	> leavers                                  who was told to end, and who of them has left
//	> strays NODE                                it is heard to go on with the run
//	> silence
//	> story                                      who is at fault, who followed, and what to do
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t}
		return func(line string) string { return p.say(line, strings.Fields(line)) }
	})
}

type player struct {
	t           *testing.T
	core        *Core
	units       []Unit
	builderLoss config.LossPolicy
	now         time.Time

	scheduler   string
	readoutLoss config.LossPolicy
	ends        bool // the run is to
	asleep      bool // the control stands still until the next time
}

// cut is a line behind so many words.
func cut(line string, words int) string {
	return strings.Join(strings.Fields(line)[words:], " ")
}

func (p *player) say(line string, w []string) string {
	switch w[0] {
	case "nodes", "units":
		p.make(w)
	case "decides":
		at := slices.IndexFunc(p.units, func(u Unit) bool { return u.Node == w[1] })
		if at < 0 {
			p.units = append(p.units, Unit{Node: w[1], Decision: true})
		} else {
			p.units[at].Decision = true
		}
	case "begin":
		p.core.SetView(p.units, p.scheduler, p.readoutLoss, p.builderLoss)
		p.core.BeginRun()
		p.ends = false
		p.noteReports(p.core.names)
	case "at":
		var s float64
		if _, err := fmt.Sscan(w[1], &s); err != nil {
			p.t.Fatal(err)
		}
		at := time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second)))
		for ; p.now.Before(at) && !p.asleep; p.now = p.now.Add(200 * time.Millisecond) {
			p.core.AwakeTime(p.now)
		}
		p.now, p.asleep = at, false
		p.core.AwakeTime(p.now)
	case "asleep":
		p.asleep = true
	case "heard":
		p.noteReports(w[1:])
	case "silence":
		p.core.IgnoreFaults()
	case "story":
		return p.rootCause()
	case "strays":
		return map[bool]string{true: "it is to drop the run\n"}[p.core.RetireOnce(w[1])]
	case "exclude":
		return complaint(p.core.Exclude(w[1]))
	case "include":
		return complaint(p.core.Include(w[1]))
	case "back":
		return complaint(p.core.Readmit(w[1]))
	case "ends":
		p.ends = true
	case "undo":
		p.core.RetryExclude(w[1])
	case "leavers":
		return p.leavers()
	default:
		if x := (DepartureReport{Requested: true}); len(w) > 1 && slices.Contains([]string{"asks", "tells", "is"}, w[1]) {
			if x.Final = w[1] == "is"; w[1] == "tells" {
				x.Progress = uint64(transcript.Number(p.t, w[2]))
			}
			act := p.core.UpdateDeparture(w[0], x, p.ends, p.now)
			said := acts[act]
			switch act { // as the shell does
			case LoseLeaver:
				act, _ = p.core.Observe(DepartureLoss(w[0]))
				said += acts[act]
			case NoteWithdrawal:
				p.core.NoteLeft(w[0])
			}
			return said
		}
		return p.observe(line, w)
	}
	return ""
}

// acts are what is to be done.
var acts = [...]string{
	NoAction:       "",
	EndRun:         "the run ends\n",
	LoseUnit:       "the run goes on without it\n",
	ExcludeUnit:    "its builder unit is taken out\n",
	ConfirmEnd:     "it hears that the run ends\n",
	LoseLeaver:     "all its units are lost to the run, since it was told to end\n",
	DrainRun:       "the run ends in good order, and it hears that\n",
	NoteWithdrawal: "it has left in good order\n",
	DeclareMissing: "it is given up\n",
}

func (p *player) leavers() string {
	said := "nobody was told to end\n"
	for i, name := range p.core.Leavers() {
		if i == 0 {
			said = ""
		}
		at := p.core.PresenceOf(name)
		said += fmt.Sprintf("%s: left %v, lost %v\n", name, at.Withdrawn != "", at.Lost)
	}
	return said
}

func complaint(err error) string {
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	return ""
}

// make makes the nodes of a scene.
func (p *player) make(w []string) {
	p.core = New(slices.Contains(w, "spawned"), config.Default().Timeouts())
	p.units, p.scheduler, p.now = nil, "", time.Unix(1000, 0)
	rus, bus, policy := transcript.Number(p.t, w[1]), 0, "essential"
	if w[0] == "units" {
		bus = transcript.Number(p.t, w[2])
	}
	if slices.Contains(w, "loss") {
		on := slices.Index(append(w, "on"), "on")
		policy = strings.Join(w[slices.Index(w, "loss")+1:on], " ")
	}
	var err error
	reading := "essential"
	if i := slices.Index(w, "reading"); i > 0 {
		reading = strings.Join(w[i+1:slices.Index(w, "loss")], " ")
	}
	if p.readoutLoss, err = config.ParseLoss(reading, rus); err != nil {
		p.t.Fatal(err)
	}
	if p.builderLoss, err = config.ParseLoss(policy, max(rus, bus)); err != nil {
		p.t.Fatal(err)
	}
	share := 1
	if slices.Contains(w, "sharing") {
		share = transcript.Number(p.t, w[slices.Index(w, "sharing")+1])
	}
	for i := range rus + bus {
		u := Unit{Node: config.NodeName(i, share), Readout: i < rus, Builder: bus == 0 || i >= rus}
		p.units = append(p.units, u)
		p.core.SetLocation(u.Node, "", fmt.Sprint(1000+i/share))
	}
	if i := slices.Index(w, "tagnet"); i >= 0 {
		p.scheduler = w[i+1]
	}
	if i := slices.Index(w, "on"); i >= 0 {
		hosts := w[i+1:]
		for j, word := range hosts {
			if word == "tagnet" || word == "spawned" {
				hosts = hosts[:j]
				break
			}
		}
		for j, u := range p.units {
			p.core.SetLocation(u.Node, hosts[min(j/share, len(hosts)-1)], "")
		}
	}
}

func (p *player) noteReports(names []string) {
	for _, name := range names {
		p.core.NoteReport(name, p.now, false)
	}
}

// observe has the core see something.
func (p *player) observe(line string, w []string) string {
	x := Observation{Fault: Fault{Evidence: "seen by the control"}}
	switch {
	case w[0] == "ended":
		x.Kind, x.Component, x.Subsystem, x.What = ProcessEndSeen, w[1], SubsystemProcess, "its process "+cut(line, 2)
	case w[0] == "vanished":
		x.Kind, x.Component, x.Subsystem, x.What = ProcessVanished, w[1], SubsystemProcess, cut(line, 2)
	case w[0] == "missing":
		x.Kind, x.Component, x.Subsystem, x.What = SilentToControl, w[1], SubsystemNodeService, cut(line, 2)
	case w[0] == "scheduler":
		x.Kind, x.Component, x.Subsystem, x.What = Disconnected, w[2], w[3], cut(line, 4)
		x.Evidence, x.Scheduler = "seen by the scheduler", true
	case w[0] == "control":
		x.Kind, x.Component, x.Subsystem, x.What = SelfReported, "control", w[2], cut(line, 3)
	case w[1] == "finds":
		x.Kind, x.ReportedBy, x.Component, x.Subsystem, x.What = SelfReported, w[0], w[2], SubsystemData, cut(line, 3)
		x.Evidence = "seen by " + w[0]
	case w[1] == "lost":
		x.Kind, x.ReportedBy, x.Component, x.Subsystem = Disconnected, w[0], w[2], SubsystemTransport
		x.What, x.Evidence = "the link of "+w[0]+" to it is down", "seen by "+w[0]
	case w[1] == "says":
		x.Kind, x.ReportedBy, x.Component, x.Subsystem, x.What = ReportedByPeer, w[0], w[2], w[3], cut(line, 4)
		x.Subsystem, x.Trouble, _ = strings.Cut(x.Subsystem, "/")
		x.LinkClosed, x.Evidence = w[4] == "closed", "seen by "+w[0]
		if x.Component == x.ReportedBy {
			x.Kind = SelfReported
		}
	default:
		return "not understood\n"
	}
	act, _ := p.core.Observe(x)
	return acts[act]
}

func (p *player) rootCause() string {
	var b strings.Builder
	write := func(f Fault) {
		fmt.Fprintf(&b, "%s.\n   %s\n", f.Sentence(), f.Advice)
	}
	for _, f := range p.core.Losses() {
		b.WriteString("without ")
		write(f)
	}
	if f := p.core.Cause(p.now); f != nil {
		write(*f)
	}
	if b.Len() == 0 {
		return "nothing has broken\n"
	}
	return b.String()
}
