package tagnet

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/tagnet/core"
)

// Term of a control: its number grows with each start of a control, and so tells which of two controls with the same
// certificate started later. Number 0 is lower than that of any control.
type Term struct {
	Number uint64
	Holder string // the process that has it, for people: "control on host-a, process 1234"
}

// fence decides which control to obey: the one with the highest term so far. It is a core without clock.
type fence struct {
	term  Term
	since time.Time // when the first call with that term came
}

// admit refuses a control with a lower term than the highest so far. raised tells that the term is higher, which ends
// the former control. Two holders of one number can only come from a broken clock: the fence obeys the first.
func (f *fence) admit(t Term, now time.Time) (raised bool, err error) {
	switch {
	case t.Number > f.term.Number:
		f.term, f.since = t, now
		return true, nil
	case t.Number < f.term.Number, t.Holder != f.term.Holder && t.Number > 0:
		return false, &FencedError{Term: t, Current: f.term, Since: f.since}
	}
	return false, nil
}

// FencedError refuses a control, since the fence obeys another one with a higher term.
type FencedError struct {
	Term    Term      // of the control that was refused
	Current Term      // of the control that is obeyed
	Since   time.Time // when that control first called, by the clock of the refusing process
}

func (e *FencedError) Error() string {
	current := fmt.Sprintf("only term %d", e.Term.Number)
	if e.Term.Number == e.Current.Number {
		current = "the same one"
	}
	return fmt.Sprintf("another control has taken over: %s has term %d since %s, and %s has %s; end the one that is "+
		"not wanted",
		holderOrNobody(e.Current.Holder), e.Current.Number, e.Since.Format(time.RFC3339),
		holderOrNobody(e.Term.Holder), current)
}

func holderOrNobody(holder string) string {
	if holder == "" {
		return "a control that does not say which"
	}
	return holder
}

// Status is the error as a gRPC status; AsFencedError decodes it.
func (e *FencedError) Status() error {
	st := status.New(codes.FailedPrecondition, e.Error())
	info := &errdetails.ErrorInfo{Reason: reasonOf(core.RefusedTerm), Domain: refusalDomain, Metadata: map[string]string{
		"got": strconv.FormatUint(e.Term.Number,
			10), "got_holder": e.Term.Holder, "want": strconv.FormatUint(e.Current.Number,
			10),
		"want_holder": e.Current.Holder, "since": e.Since.Format(time.RFC3339Nano),
	}}
	if with, err := st.WithDetails(info); err == nil {
		st = with
	}
	return st.Err()
}

// AsFencedError finds a FencedError in err, which may be a gRPC status. It returns nil if another control has not taken
// over.
func AsFencedError(err error) *FencedError {
	var fenced *FencedError
	if errors.As(err, &fenced) {
		return fenced
	}
	info := refusalInfo(err)
	if info == nil || info.GetReason() != reasonOf(core.RefusedTerm) {
		return nil
	}
	m := info.GetMetadata()
	fenced = &FencedError{Term: Term{Holder: m["got_holder"]}, Current: Term{Holder: m["want_holder"]}}
	fenced.Term.Number, _ = strconv.ParseUint(m["got"], 10, 64) // of a peer: 0 if it is no number
	fenced.Current.Number, _ = strconv.ParseUint(m["want"], 10, 64)
	fenced.Since, _ = time.Parse(time.RFC3339Nano, m["since"])
	return fenced
}

// Fence obeys the control with the highest term that has called since the Fence was made. A process has one Fence for
// everything that controls command there. Its methods may be called from any goroutine.
type Fence struct {
	mu         sync.Mutex // guards the rest
	fence      fence
	superseded chan struct{} // closed when a higher term comes
}

// NewFence makes a fence that obeys the first control that calls.
func NewFence() *Fence { return &Fence{superseded: make(chan struct{})} }

// Admit checks the term of a control that calls. superseded is closed when a control with a higher term calls. The
// error is a *FencedError.
func (f *Fence) Admit(t Term) (superseded <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raised, err := f.fence.admit(t, time.Now())
	if raised {
		close(f.superseded)
		f.superseded = make(chan struct{})
	}
	return f.superseded, err
}

// Term is the highest term so far, and when it came first.
func (f *Fence) Term() (Term, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fence.term, f.fence.since
}
