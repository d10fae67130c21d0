package tagnet

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFence obeys, at any time, the control with the highest term that was heard, and of two with one number the first.
func TestFence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fence
		var highest Term
		var since time.Time
		for i := range rapid.IntRange(1, 30).Draw(t, "calls") {
			now := time.Unix(int64(i), 0)
			term := Term{Number: rapid.Uint64Range(0, 4).Draw(t, "number"), Holder: rapid.SampledFrom([]string{"a",
				"b"}).Draw(t, "holder")}
			rose, err := f.admit(term, now)
			if want := term.Number > highest.Number; rose != want {
				t.Fatalf("%+v after %+v: rose %v", term, highest, rose)
			}
			if rose {
				highest, since = term, now
			}
			obeyed := term == highest || highest.Number == 0
			if (err == nil) != obeyed {
				t.Fatalf("%+v where %+v is obeyed: %v", term, highest, err)
			}
			var fenced *FencedError
			if err != nil && (!errors.As(err,
				&fenced) || fenced.Current != highest || !fenced.Since.Equal(since) || fenced.Term != term) {
				t.Fatalf("%+v where %+v is obeyed since %v: %+v", term, highest, since, fenced)
			}
		}
	})
}

// TestFencedTravels reads the refusal of a control back from a gRPC status.
func TestFencedTravels(t *testing.T) {
	want := FencedError{Term: Term{1, "a"}, Current: Term{2, "b"}, Since: time.Now().Truncate(0)}
	got := AsFencedError(want.Status())
	if got == nil || got.Term != want.Term || got.Current != want.Current || !got.Since.Equal(want.Since) ||
		got.Error() != want.Error() {
		t.Errorf("sent %+v, got %+v", want, got)
	}
	if AsFencedError(nil) != nil || AsFencedError(errCut) != nil || AsFencedError(errClosing) != nil {
		t.Error("an error is taken for what it is not")
	}
}

// TestFenceNotifiesThoseBefore closes what an older control waits on, once.
func TestFenceNotifiesThoseBefore(t *testing.T) {
	f := NewFence()
	risen, err := f.Admit(Term{Number: 1, Holder: "a"})
	again, _ := f.Admit(Term{Number: 1, Holder: "a"})
	if err != nil || isClosed(risen) || risen != again {
		t.Fatalf("%v, closed %v", err, isClosed(risen))
	}
	newer, err := f.Admit(Term{Number: 2, Holder: "b"})
	if err != nil || !isClosed(risen) || isClosed(newer) {
		t.Errorf("%v: the older is told %v, the newer %v", err, isClosed(risen), isClosed(newer))
	}
	if term, since := f.Term(); term.Number != 2 || since.IsZero() {
		t.Errorf("obeys %+v since %v", term, since)
	}
}
