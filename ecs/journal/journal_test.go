package journal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brief writes events as "number text".
func brief(events []*ecsv1.Event) (out []string) {
	for _, e := range events {
		out = append(out, fmt.Sprint(e.Number, " ", e.Text))
	}
	return out
}

func filled(size int, after uint64, events int) *Journal {
	j := New(size, after)
	for i := range events {
		j.Add(&ecsv1.Event{Text: fmt.Sprint("e", i+1)})
	}
	return j
}

func TestSince(t *testing.T) {
	for name, tc := range map[string]struct {
		j     *Journal
		after uint64
		want  []string
	}{
		"empty":                    {New(3, 0), 0, nil},
		"no size is a size of one": {filled(0, 0, 1), 0, []string{"1 e1"}},
		"all":                      {filled(3, 0, 3), 0, []string{"1 e1", "2 e2", "3 e3"}},
		"some":                     {filled(3, 0, 3), 2, []string{"3 e3"}},
		"none newer":               {filled(3, 0, 3), 3, nil},
		"the first are forgotten": {filled(3, 0, 5), 0,
			[]string{"2 2 events are no longer remembered: the journal holds 3", "3 e3", "4 e4", "5 e5"}},
		"one is forgotten": {filled(3, 0, 5), 1,
			[]string{"2 1 events are no longer remembered: the journal holds 3", "3 e3", "4 e4", "5 e5"}},
		"none that it had not":          {filled(3, 0, 5), 2, []string{"3 e3", "4 e4", "5 e5"}},
		"numbers go on":                 {filled(3, 100, 2), 0, []string{"101 e1", "102 e2"}},
		"read to the end of an earlier": {filled(3, 100, 2), 100, []string{"101 e1", "102 e2"}},
		"in the midst of an earlier": {filled(3, 100, 5), 70, []string{
			"102 event 70 is of an earlier run control; later events of that control are no longer remembered, " +
				"nor are 2 events of this " +
				"one", "103 e3", "104 e4", "105 e5",
		}},
		"numbers began anew": {filled(3, 0, 1), 70, []string{
			"0 event 70 is of an earlier run control; later events of that control are no longer remembered, " +
				"nor are 0 events of this one",
			"1 e1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := brief(tc.j.EventsSince(tc.after)); !slices.Equal(got, tc.want) {
				t.Errorf("%q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestASlowReaderGetsAGapEventAndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		j := New(100, 0)
		events := j.Subscribe(ctx, 0)
		synctest.Wait() // it waits for events
		for range 500 {
			j.Add(&ecsv1.Event{Kind: "state"})
			synctest.Wait() // it has taken what it can
		}
		next, skipped := uint64(1), 0
		for next <= 500 {
			e := <-events
			if e.Kind == kindGap {
				if want := fmt.Sprint(e.Number-next+1, " events "); !strings.HasPrefix(e.Text, want) {
					t.Errorf("event %d was expected; %d %s", next, e.Number, e.Text)
				}
				skipped += int(e.Number - next + 1)
			} else if e.Number != next {
				t.Fatalf("event %d in the place of %d", e.Number, next)
			}
			next = e.Number + 1
		}
		if skipped != 399 { // 500 but for the 100 remembered and the one in its hand
			t.Errorf("it missed %d", skipped)
		}
		cancel()
		if _, open := <-events; open {
			t.Error("the channel is open after the end of the context")
		}
	})
}

func TestNewOnesOnly(t *testing.T) {
	j := filled(3, 0, 3)
	events := j.Subscribe(t.Context(), j.LastNumber())
	j.Add(&ecsv1.Event{Text: "new"})
	if e := patiently.Receive(t, events); e.Text != "new" || e.At == nil {
		t.Errorf("%v", e)
	}
}

// Whoever reads in steps gets each event once and in order, or as many missed as there were.
func TestReadersGetEverythingOrAGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		after := rapid.Uint64Range(0, 3).Draw(t, "after")
		j := New(size, after)
		at, added := after, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				added++
				if n := j.Add(&ecsv1.Event{}); n != after+added {
					t.Fatalf("event %d has number %d", after+added, n)
				}
			},
			"read": func(t *rapid.T) {
				limit := rapid.IntRange(1, 5).Draw(t, "limit")
				events, _ := j.read(at, limit)
				if len(events) > limit || len(events) == 0 && at != after+added {
					t.Fatalf("%d events after %d of %d", len(events), at, after+added)
				}
				for i, e := range events {
					if gap := e.Kind == kindGap; e.Number != at+1 && !gap || gap &&
						(i > 0 || e.Number != after+added-uint64(size) && at != 0) {
						t.Fatalf("after %d of %d: %v", at, after+added, e)
					}
					at = e.Number
				}
			},
		})
	})
}

func TestManyWritersAndReaders(t *testing.T) {
	const writers, each, readers = 4, 200, 4
	j := New(writers*each, 0)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				j.Add(&ecsv1.Event{})
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range readers {
		all.Go(func() {
			events := j.Subscribe(ctx, 0)
			for n := uint64(1); n <= writers*each; n++ {
				if e := <-events; e.Number != n {
					t.Errorf("event %d in the place of %d", e.Number, n)
					return
				}
			}
		})
	}
	patiently.Wait(t, all.Wait)
	cancel()
}
