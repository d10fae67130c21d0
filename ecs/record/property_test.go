package record

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// model is what a store must hold.
type model struct {
	runs map[uint32]*ecsv1.Run // whole, with their events
	last uint32                // highest number taken or passed over
}

// Whatever is done in whatever order, with closing and opening in between: numbers grow, records are what was put last,
// closed ones never change.
func TestStoreIsItsModel(t *testing.T) {
	dir, files := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		path := filepath.Join(dir, fmt.Sprint(files))
		s := must(Open(path))(t)
		s.db.NoSync = true // a crash is the matter of another test
		defer func() { _ = s.Close() }()
		m := model{runs: map[uint32]*ecsv1.Run{}}
		anyRun := func(t *rapid.T) uint32 { return rapid.Uint32Range(1, m.last+2).Draw(t, "run") }

		t.Repeat(map[string]func(*rapid.T){
			"next": func(t *rapid.T) {
				r := must(s.NextRun(&ecsv1.Run{Number: 77, Remark: rapid.String().Draw(t, "remark")}))(t)
				if r.GetNumber() != m.last+1 {
					t.Fatalf("number %d after %d", r.GetNumber(), m.last)
				}
				m.last = r.GetNumber()
				m.runs[m.last] = r
			},
			"at least": func(t *rapid.T) {
				n := rapid.Uint32Range(0, m.last+5).Draw(t, "n")
				if err := s.RaiseNextNumber(n); err != nil {
					t.Fatal(err)
				}
				m.last = max(m.last, n-min(n, 1))
			},
			"put": func(t *rapid.T) {
				r := sample(anyRun(t))
				r.Remark = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "remark")
				r.Unread = rapid.SampledFrom([][]string{nil, {"n0", "n1"}}).Draw(t, "unread")
				if rapid.Bool().Draw(t, "close") {
					closed(r)
				}
				m.putRun(t, r, s.Put(r))
			},
			"put what was read": func(t *rapid.T) {
				if r, err := s.Get(anyRun(t)); err == nil {
					m.putRun(t, r, s.Put(r))
				}
			},
			"complete": func(t *rapid.T) {
				r := proto.CloneOf(m.runs[anyRun(t)])
				if r == nil {
					return
				}
				r.EventsBuilt++
				r.Unread = rapid.SampledFrom([][]string{nil, {"n1"}, {"n0", "n1"}}).Draw(t, "left")
				r.Remark = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "remark")
				m.complete(t, r, s.CompleteRun(r))
			},
			"event": func(t *rapid.T) {
				n, e := anyRun(t), &ecsv1.Event{Text: rapid.String().Draw(t, "text")}
				m.event(t, n, e, s.AddEvent(n, e))
			},
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = must(Open(path))(t)
				s.db.NoSync = true
			},
			"": func(t *rapid.T) { m.check(t, s) },
		})
	})
}

func (m *model) putRun(t *rapid.T, r *ecsv1.Run, err error) {
	old := m.runs[r.GetNumber()]
	want := proto.CloneOf(r)
	want.Events = old.GetEvents()
	switch {
	case old == nil:
		if !errors.As(err, new(*NoRunError)) {
			t.Fatalf("put of no run: %v", err)
		}
	case IsClosed(old) && !proto.Equal(old, want):
		if c := new(ClosedError); !errors.As(err, &c) || c.Run != r.GetNumber() || c.Error() == "" {
			t.Fatalf("put into a closed record: %v", err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		m.runs[r.GetNumber()] = want
	}
}

func (m *model) complete(t *rapid.T, r *ecsv1.Run, err error) {
	switch old := m.runs[r.GetNumber()]; {
	case !IsClosed(old) || len(r.GetUnread()) >= len(old.GetUnread()) || r.GetRemark() != old.GetRemark():
		if !errors.As(err, new(*ClosedError)) {
			t.Fatalf("a record that misses nothing of that is completed: %v", err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		m.runs[r.GetNumber()] = r
	}
}

func (m *model) event(t *rapid.T, n uint32, e *ecsv1.Event, err error) {
	switch r := m.runs[n]; {
	case r == nil:
		if !errors.As(err, new(*NoRunError)) {
			t.Fatalf("event of no run: %v", err)
		}
	case IsClosed(r):
		if !errors.As(err, new(*ClosedError)) {
			t.Fatalf("event of a closed record: %v", err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		r.Events = append(r.Events, e)
	}
}

func (m *model) check(t *rapid.T, s *Store) {
	open, newest := 0, uint32(0)
	for n, want := range m.runs {
		if got := must(s.Get(n))(t); !proto.Equal(got, want) {
			t.Fatalf("run %d is %v, want %v", n, got, want)
		}
		if !IsClosed(want) {
			open++
		}
		newest = max(newest, n)
	}
	l := must(s.List(0, len(m.runs)))(t)
	if len(l.Runs) != len(m.runs) || l.HasOlder || len(l.Damaged) > 0 {
		t.Fatalf("list has %d runs, want %d; %+v", len(l.Runs), len(m.runs), l.Damaged)
	}
	for i := 1; i < len(l.Runs); i++ {
		if l.Runs[i].GetNumber() >= l.Runs[i-1].GetNumber() {
			t.Fatalf("list is not by falling number: %v", l.Runs)
		}
	}
	if l := must(s.OpenRuns())(t); len(l.Runs) != open {
		t.Fatalf("%d open runs, want %d", len(l.Runs), open)
	}
	if r, err := s.Latest(); newest > 0 && (err != nil || r.GetNumber() != newest) {
		t.Fatalf("the latest is %v, %v, want %d", r, err, newest)
	}
	if n := must(s.LastRunNumber())(t); n != newest {
		t.Fatalf("the last number is %d, want %d", n, newest)
	}
}
