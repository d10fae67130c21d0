package external

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/testkit/cases"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// judges are programs of the clients, and how they are started; one that cannot be is skipped aloud.
var judges = map[string]func(t *testing.T) []string{
	"C": func(t *testing.T) []string {
		return []string{compiled.C(t, "../../clients/c", "testdata/judge.c")}
	},
	"Python": func(t *testing.T) []string {
		return append(interpreted.Python(t, "../../clients/python"), "testdata/judge.py")
	},
}

// olderJudges are the same with the clients of an earlier release, 226138c3, as they were then.
var olderJudges = map[string]func(t *testing.T) []string{
	"C of 226138c3": func(t *testing.T) []string {
		return []string{compiled.C(t, "../../clients/frontend/testdata/226138c3/c", "testdata/judge.c")}
	},
	"Python of 226138c3": func(t *testing.T) []string {
		return append(interpreted.Python(t, "../../clients/frontend/testdata/226138c3/python"), "testdata/judge.py")
	},
}

// run starts a program that judges, which is dead at the end of the test.
func (d *desk) run(command []string) *exec.Cmd {
	d.t.Helper()
	cmd := exec.Command(command[0], append(command[1:], d.cfg.Name)...)
	cmd.Stderr = os.Stderr
	must.OK(d.t, cmd.Start())
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = patiently.Exit(d.t, cmd)
	})
	return cmd
}

// right holds that each verdict that a program gave is the one of its event's data.
func (d *desk) right(meps, packing int) {
	d.t.Helper()
	var p selection.Packet
	for k := range uint64(meps) {
		entry := entryOf(d.t, d.p, k, k*uint64(packing), packing)
		must.OK(d.t, p.Parse(selection.Meta{}, entry[:len(entry)-32]))
		for e := range p.Events() {
			want := filter.Verdict{Decision: filter.Accepted}
			if e.Number%3 != 0 {
				want.Decision = filter.Rejected
			}
			for _, f := range e.Fragments {
				want.Score += f.Source
				for _, b := range f.Data {
					want.Score += uint16(b)
				}
			}
			got := d.got[e.Number]
			if said := got.Decision == filter.Accepted || got.Decision == filter.Rejected; said && got != want {
				d.t.Fatalf("event %d: %+v, and by its data %+v", e.Number, got, want)
			}
		}
	}
}

// TestPrograms holds that programs in C and Python, those of an earlier release, too, judge what was built, alone and
// several in parallel, and end with the run.
func TestPrograms(t *testing.T) {
	all := maps.Clone(judges)
	maps.Copy(all, olderJudges)
	for name, command := range all {
		for _, packing := range []int{1, 50} {
			t.Run(name, func(t *testing.T) {
				start := command(t)
				d := open(t, time.Minute, 40)
				programs := []*exec.Cmd{d.run(start), d.run(start)}
				until(t, "both programs", func() bool { return d.Stats().Processes == 2 })
				const meps = 400
				d.put(0, meps, packing)
				count := d.wait(meps * packing)
				if count[filter.TimedOut]+count[filter.Failed] != 0 {
					t.Errorf("%v", count)
				}
				d.right(meps, packing)
				d.stop()
				for _, p := range programs {
					must.OK(t, patiently.Exit(t, p))
				}
			})
		}
	}
}

// TestKilledAtRandom holds that each event has one verdict, whenever programs are killed or stand still; that those
// which a program gave are right; and that no more events fail than programs died. One is killed when some number of
// answers has come since the last one was: so some program is there, and another may be just starting.
func TestKilledAtRandom(t *testing.T) {
	for name, command := range judges {
		t.Run(name, func(t *testing.T) {
			start := command(t)
			d := open(t, 300*time.Millisecond, 40)
			r := rand.New(rand.NewPCG(7, 1))
			programs := []*exec.Cmd{d.run(start), d.run(start), d.run(start)}
			deaths := cases.Count[uint64](20, 7)
			const packing = 3
			meps, kill := 0, uint64(1)
			until(t, "so many died", func() bool {
				s := d.Stats()
				if s.Processes > 0 { // else all that is put passes by time-out
					d.put(uint64(meps), 5, packing)
					meps += 5
				}
				if s.Answers >= kill {
					kill = s.Answers + 1 + r.Uint64N(2000)
					i := r.IntN(len(programs))
					must.OK(t, programs[i].Process.Kill())
					_ = patiently.Exit(t, programs[i])
					programs[i] = d.run(start)
				}
				return s.Crashed >= deaths
			})
			count := d.wait(meps * packing)
			d.right(meps, packing)
			s := d.Stats()
			t.Logf("%v %+v", count, s)
			if uint64(count[filter.Failed]) > s.Crashed*uint64(packing) ||
				s.DoubledAnswers+s.UnassignedAnswers+s.InvalidAnswers > 0 {
				t.Errorf("%v %+v", count, s)
			}
		})
	}
}
