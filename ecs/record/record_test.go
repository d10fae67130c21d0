package record

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

var day = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sample is a record with something in every part of it.
func sample(n uint32) *ecsv1.Run {
	return &ecsv1.Run{
		Number:            n,
		StartedBy:         "alice",
		StartBegun:        timestamppb.New(day),
		StartDone:         timestamppb.New(day.Add(time.Second)),
		Configuration:     "nodes: 4\n",
		ConfigurationHash: "ab12",
		Versions:          map[string]string{"control": "1.0", "n0": "1.0"},
		Roles:             map[string]string{"n0": "both", "n1": "spare (bu)"},
		Nodes:             []string{"n0", "n1"},
		EventsBuilt:       1 << 60,
		Accounts: []*ecsv1.Account{{Name: "MFPs", Left: 7, Right: 7,
			Ok: true}},
		ReportJson:  `{"good":true}`,
		Remark:      "first light",
		GoodputGbps: 12.5,
	}
}

func closed(r *ecsv1.Run) *ecsv1.Run {
	r.Verdict, r.StopBegun, r.StopDone = ecsv1.Verdict_VERDICT_GOOD, timestamppb.New(day.Add(time.Minute)),
		timestamppb.New(day.Add(2*time.Minute))
	return r
}

func assertEqual(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	s := newStore(t)
	for what, f := range map[string]func() error{
		"get":    func() error { _, err := s.Get(3); return err },
		"latest": func() error { _, err := s.Latest(); return err },
		"put":    func() error { return s.Put(sample(3)) },
		"zero":   func() error { return s.Put(&ecsv1.Run{}) },
		"event":  func() error { return s.AddEvent(3) },
	} {
		var no *NoRunError
		if err := f(); !errors.As(err, &no) || err.Error() == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if v := must(s.Recall("view"))(t); v != nil {
		t.Errorf("recalled %q", v)
	}
	if l := must(s.List(0, 10))(t); len(l.Runs) != 0 || l.HasOlder {
		t.Errorf("list: %+v", l)
	}
	if n := must(s.LastRunNumber())(t); n != 0 {
		t.Errorf("the last number is %d", n)
	}
}

func TestNumbers(t *testing.T) {
	s := newStore(t)
	next := func() uint32 {
		t.Helper()
		return must(s.NextRun(nil))(t).GetNumber()
	}
	var got []uint32
	for _, least := range []uint32{0, 1, 2, 1000, 5, 1001, 1002, 2000} {
		if err := s.RaiseNextNumber(least); err != nil {
			t.Fatal(err)
		}
		got = append(got, next())
	}
	assertEqual(t, got, []uint32{1, 2, 3, 1000, 1001, 1002, 1003, 2000})
	if r := must(s.Latest())(t); r.GetNumber() != 2000 {
		t.Errorf("the latest is %d", r.GetNumber())
	}
	if err := s.RaiseNextNumber(math.MaxUint32); err != nil {
		t.Fatal(err)
	}
	if n := next(); n != math.MaxUint32 {
		t.Errorf("the last number is %d", n)
	}
	var none *exhaustedError
	if _, err := s.NextRun(nil); !errors.As(err, &none) || !strings.Contains(err.Error(), "used up") {
		t.Errorf("after the last number: %v", err)
	}
}

func TestList(t *testing.T) {
	s := newStore(t)
	for range 5 {
		r := must(s.NextRun(nil))(t)
		if err := s.Put(sample(r.GetNumber())); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		before uint32
		limit  int
		want   []uint32
		more   bool
	}{
		{0, 2, []uint32{5, 4}, true}, {4, 2, []uint32{3, 2}, true}, {2, 2, []uint32{1}, false}, {1, 2, nil, false},
		{0, 5, []uint32{5, 4, 3, 2, 1}, false}, {99, 1, []uint32{5}, true},
		{math.MaxUint32, 9, []uint32{5, 4, 3, 2, 1}, false}, {0, 0, nil, true},
	} {
		l := must(s.List(tc.before, tc.limit))(t)
		var got []uint32
		for _, r := range l.Runs {
			got = append(got, r.GetNumber())
			if r.Configuration != "" || r.ReportJson != "" || r.Accounts != nil || r.Versions != nil || r.Remark == "" ||
				r.ConfigurationHash == "" {
				t.Errorf("a list shows %v", r)
			}
		}
		assertEqual(t, got, tc.want)
		if l.HasOlder != tc.more {
			t.Errorf("before %d, limit %d: more %v", tc.before, tc.limit, l.HasOlder)
		}
	}
}

func TestManyEventsKeepTheFirstAndTheLast(t *testing.T) {
	s := newStore(t)
	s.limits = limits{keptFirstEvents: 3, keptLastEvents: 2}
	must(s.NextRun(nil))(t)
	for i := range 10 {
		if err := s.AddEvent(1, &ecsv1.Event{Text: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	texts := func() (out []string) {
		for _, e := range must(s.Get(1))(t).Events {
			out = append(out, e.Text)
		}
		return out
	}
	assertEqual(t, texts(), []string{"0", "1", "2",
		"5 events of this run are not on record, which keeps the first 3 and the last 2", "8", "9"})
}

func TestAuditKeepsTheNewest(t *testing.T) {
	s := newStore(t)
	s.limits.auditEntries = 3
	for i := range 5 {
		if err := s.AddAudit(&ecsv1.AuditEntry{Action: fmt.Sprint(i), Number: 99}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range must(s.ListAudit(10))(t) {
		got = append(got, fmt.Sprint(e.Number, " ", e.Action, " ", e.Answer))
	}
	assertEqual(t, got, []string{"5 4 ", "4 3 ", "3 2 ", "0 audit 2 older entries are no longer kept: the log holds 3"})
	if l := must(s.ListAudit(1))(t); len(l) != 1 || l[0].Action != "4" {
		t.Errorf("the newest: %v", l)
	}
}

func TestMemory(t *testing.T) {
	s := newStore(t)
	for _, v := range []string{"a", "", "b"} {
		if err := s.Remember("view", []byte(v)); err != nil {
			t.Fatal(err)
		}
		if got := must(s.Recall("view"))(t); got == nil || string(got) != v {
			t.Errorf("%q is remembered as %q", v, got)
		}
	}
	if err := s.Remember("view", nil); err != nil {
		t.Fatal(err)
	}
	if got := must(s.Recall("view"))(t); got != nil {
		t.Errorf("what was forgotten is %q", got)
	}
}

func TestJSONIsStable(t *testing.T) {
	first := must(JSON(sample(7)))(t)
	for range 20 {
		assertEqual(t, string(must(JSON(sample(7)))(t)), string(first))
	}
	if !strings.Contains(string(first), "\n  \"started_by\": \"alice\",\n") {
		t.Errorf("%s", first)
	}
}

func TestOpenIsForTheOwnerAlone(t *testing.T) {
	s := newStore(t)
	for path, want := range map[string]os.FileMode{s.Path(): 0o600, filepath.Dir(s.Path()): 0o700} {
		if info := must(os.Stat(path))(t); info.Mode().Perm() != want {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(1); err == nil || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenNamesTheHolder(t *testing.T) {
	s := newStore(t)
	_, err := Open(s.Path())
	var held *lockedError
	if !errors.As(err, &held) || held.PID != os.Getpid() || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("a second Open: %v", err)
	}
}
