package record

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/patiently"
)

// childEnv makes the test binary a process that writes records until it is killed.
const childEnv = "RINGLET_RECORD_CHILD"

// child is a control in a hurry. It says each number as soon as it has it; what it says has to be on record whatever
// comes.
func child(path string) int {
	s, err := Open(path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for {
		r, err := s.NextRun(&ecsv1.Run{StartedBy: "child"})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		n := r.GetNumber()
		fmt.Println(n)
		for _, step := range []func() error{
			func() error { return s.Put(sample(n)) },
			func() error { return s.AddEvent(n, &ecsv1.Event{Text: "one"}, &ecsv1.Event{Text: "two"}) },
			func() error { return s.AddAudit(&ecsv1.AuditEntry{Action: "command start"}) },
			func() error { return s.Remember("run", []byte(strconv.Itoa(int(n)))) },
			func() error { return s.Put(closed(sample(n))) },
		} {
			if err := step(); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	}
}

// A control that is killed at any moment leaves a file in which nothing is damaged, and never has a number given out
// twice.
func TestKilledAtRandomMoments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	last := uint32(0)
	for round := range 20 {
		for _, n := range numbersOfAChild(t, path, 1+rand.IntN(8), rand.IntN(20_000)) {
			if n <= last {
				t.Fatalf("round %d: number %d after %d", round, n, last)
			}
			last = n
		}
		last = checkAfterKill(t, path, last)
	}
	t.Logf("20 kills, %d runs", last)
}

// numbersOfAChild starts a child, kills it some spins after it has said so many numbers, and gives all that it said.
func numbersOfAChild(t *testing.T, path string, numbers, spins int) []uint32 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for lines := bufio.NewScanner(out); patiently.Result(t, lines.Scan, "the child said nothing more"); {
		n, err := strconv.ParseUint(lines.Text(), 10, 32)
		if err != nil {
			t.Errorf("the child says %q", lines.Text())
			break
		}
		got = append(got, uint32(n))
		if len(got) == numbers {
			for range spins { // somewhere within the transactions that follow
				_ = os.Getpid()
			}
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Process.Kill()
	_ = patiently.Exit(t, cmd) // killed
	return got
}

// checkAfterKill reads everything that the children left, takes a number as a control that comes back would, and gives
// that.
func checkAfterKill(t *testing.T, path string, said uint32) uint32 {
	t.Helper()
	s := reopen(t, path)
	if err := s.db.View(func(tx *bbolt.Tx) error {
		for err := range patiently.All(t, tx.Check()) {
			t.Error(err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	l := must(s.List(0, 1<<30))(t)
	if len(l.Damaged) > 0 || len(l.Runs) == 0 || l.Runs[0].GetNumber() < said {
		t.Fatalf("run %d was said; damaged %v, %d runs", said, l.Damaged, len(l.Runs))
	}
	for _, short := range l.Runs {
		r := must(s.Get(short.GetNumber()))(t)
		if n := len(r.Events); n != 2 && (n != 0 || IsClosed(r)) {
			t.Errorf("run %d has %d events", r.GetNumber(), n)
		}
		for _, e := range r.Events {
			if e.Kind == "gap" {
				t.Error(e)
			}
		}
	}
	must(s.ListAudit(1 << 30))(t)
	must(s.Recall("run"))(t)
	r := must(s.NextRun(nil))(t)
	if r.GetNumber() != l.Runs[0].GetNumber()+1 {
		t.Errorf("number %d after run %d", r.GetNumber(), l.Runs[0].GetNumber())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return r.GetNumber()
}
