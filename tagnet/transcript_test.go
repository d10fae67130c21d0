package tagnet

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata with what the core says now")

// TestTranscripts plays every conversation in testdata: a line that begins with "> " is said to the core, the lines below it
// are its answer, lines that begin with "#" are for the reader.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in testdata (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&transcript{tokens: map[uint64]Token{}}).play(string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("the core says something else (-written +said):\n%s", diff)
			}
		})
	}
}

type transcript struct {
	core   *Core
	batch  Batch
	tokens map[uint64]Token // issued last, by MEP
}

func (p *transcript) play(script string) string {
	var out strings.Builder
	for line := range strings.Lines(script) {
		switch {
		case strings.HasPrefix(line, "> "):
			out.WriteString(line)
			out.WriteString(p.say(strings.Fields(line[2:])))
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			out.WriteString(line)
		}
	}
	return out.String()
}

// say gives one command to the core and tells its answer, each line ended.
func (p *transcript) say(w []string) string {
	if w[0] == "view" {
		core, err := NewCore(viewOf(w))
		p.core = core
		return complaint(err)
	}
	switch unit, rest := w[0], w[1:]; {
	case strings.HasPrefix(unit, "ru"):
		return complaint(p.core.Update(index(unit), p.update(rest)))
	case strings.HasPrefix(unit, "bu"):
		return complaint(p.core.Feedback(index(unit), p.feedback(rest)))
	}
	switch strings.Join(w[:min(2, len(w))], " ") {
	case "start":
		p.core.Start()
	case "issue":
		return p.issue()
	case "show":
		return p.show()
	case "pause":
		return complaint(p.core.Pause())
	case "resume":
		return complaint(p.core.Resume())
	case "drain":
		p.core.Drain(0)
	case "drain to":
		p.core.Drain(number(w[2]))
	case "abandon":
		return fmt.Sprintf("%d abandoned\n", p.core.Abandon())
	default:
		return p.membership(w)
	}
	return ""
}

func (p *transcript) membership(w []string) string {
	switch {
	case w[0] == "exclude" && strings.HasPrefix(w[1], "bu"):
		n, err := p.core.ExcludeBU(index(w[1]))
		return complaint(err) + fmt.Sprintf("%d to be issued again\n", n)
	case w[0] == "exclude":
		return complaint(p.core.ExcludeRU(index(w[1])))
	case w[0] == "include":
		return complaint(p.core.IncludeBU(index(w[1])))
	}
	return "not understood\n"
}

// viewOf reads e.g. "view of 2 RUs and 3 BUs with 4 slots, look-ahead 2, policy skip".
func viewOf(w []string) Config {
	cfg := Config{Packing: 10}
	for i := range w {
		w[i] = strings.TrimRight(w[i], ",")
	}
	for i, s := range w {
		switch s {
		case "RUs":
			cfg.RUs = names("ru", int(number(w[i-1])))
		case "BUs":
			cfg.BUs = names("bu", int(number(w[i-1])))
		case "slots":
			cfg.Slots = int(number(w[i-1]))
		case "look-ahead":
			cfg.LookAhead = int(number(w[i+1]))
		case "attempts":
			cfg.MaxAttempts = int(number(w[i+1]))
		case "first":
			cfg.First = number(w[i+1])
		case "end":
			cfg.End = number(w[i+1])
		case "skip":
			cfg.Policy = Skip
		}
	}
	return cfg
}

// update reads "has read 7", "has read 7 with 65 events", "ends at 7", "ends at 7 with 65 events".
func (p *transcript) update(w []string) Update {
	u := Update{Read: number(w[2]), End: w[0] == "ends"}
	u.Events = (u.Read - p.core.cfg.First) * uint64(p.core.cfg.Packing)
	if i := slices.Index(w, "with"); i > 0 {
		u.Events = number(w[i+1])
	}
	return u
}

// feedback reads "built 3", and "built 3 attempt 1 slot 2 events 9", what is not said being right.
func (p *transcript) feedback(w []string) Feedback {
	mep := number(w[1])
	t := p.tokens[mep]
	f := Feedback{MEP: mep, Slot: t.Slot, Attempt: t.Attempt, Events: uint32(p.core.events(mep))}
	f.Outcome = map[string]Outcome{"built": Built, "incomplete": Incomplete, "discarded": Discarded}[w[0]]
	for i := 2; i+1 < len(w); i += 2 {
		n := number(w[i+1])
		switch w[i] {
		case "attempt":
			f.Attempt = uint8(n)
		case "slot":
			f.Slot = uint32(n)
		case "events":
			f.Events = uint32(n)
		}
	}
	return f
}

func (p *transcript) issue() string {
	p.batch.Reset(p.core.NextCycle(), p.core.Places())
	p.core.Issue(&p.batch)
	var out strings.Builder
	for i := range p.batch.Len() {
		fmt.Fprintf(&out, "cycle %d:", p.batch.First+uint64(i))
		for place := range p.batch.Places {
			t, ok := p.batch.Token(i, place)
			switch {
			case !ok:
				out.WriteString(" -")
				continue
			case t.Attempt > 1:
				fmt.Fprintf(&out, " %d(attempt %d)→bu%d/%d", t.MEP, t.Attempt, t.BU, t.Slot)
			default:
				fmt.Fprintf(&out, " %d→bu%d/%d", t.MEP, t.BU, t.Slot)
			}
			p.tokens[t.MEP] = t
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "waits for %s\n", p.core.waiting)
	return out.String()
}

func (p *transcript) show() string {
	r := p.core.Registers()
	c := r.Counters
	return fmt.Sprintf("%s: %d issued, %d again, %d built, %d incomplete, %d discarded, %d abandoned, %d in flight; "+
		"released %d; %d of %d events built\n", r.State, c.Issued, c.Reissued, c.Built, c.Incomplete, c.Discarded,
		c.Abandoned, r.InFlight, r.Released, c.EventsBuilt, c.EventsIssued)
}

func complaint(err error) string {
	if err == nil {
		return ""
	}
	var in *InputError
	if errors.As(err, &in) {
		return fmt.Sprintf("refused as %s: %s: %s\n", in.Reason.String(), in.Unit, in.Detail)
	}
	return fmt.Sprintf("refused: %v\n", err)
}

func index(unit string) int { return int(number(unit[2:])) }

func number(s string) uint64 {
	n, err := strconv.ParseUint(strings.TrimRight(s, ","), 10, 64)
	if err != nil {
		panic("transcript: " + err.Error())
	}
	return n
}
