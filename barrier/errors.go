package barrier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sentinels for errors.Is; the errors that carry details unwrap to them.
var (
	// ErrClosed: the barrier was closed.
	ErrClosed = errors.New("the barrier is closed")
	// ErrBusy: another goroutine is inside Enter.
	ErrBusy = errors.New("another goroutine is inside the barrier")
	// ErrWrongRank: the message is not from a neighbour, or not for this rank.
	ErrWrongRank = errors.New("wrong rank")
	// ErrWrongKind: the sender may not send this kind of message to this rank.
	ErrWrongKind = errors.New("wrong kind")
	// ErrAhead: the message speaks of an epoch its sender cannot have reached.
	ErrAhead = errors.New("epoch ahead")
	// ErrTimeout: the time-out of Enter struck.
	ErrTimeout = errors.New("barrier timed out")
)

// FormatError says why bytes are not a barrier message.
type FormatError struct{ Reason string }

func (e *FormatError) Error() string { return "barrier message " + e.Reason }

func formatErrorf(format string, args ...any) error {
	return &FormatError{Reason: fmt.Sprintf(format, args...)}
}

// MessageError refuses a well-formed message that breaks the protocol: the
// state is as if it had never come. Reason is ErrWrongRank, ErrWrongKind or
// ErrAhead.
type MessageError struct {
	Rank    int    // the rank that refuses
	Epoch   uint64 // the epoch it stands at
	Message Message
	Reason  error
	Detail  string
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("rank %d at barrier epoch %d refuses «%s»: %s: %s", e.Rank, e.Epoch, e.Message, e.Reason, e.Detail)
}

func (e *MessageError) Unwrap() error { return e.Reason }

// EnterError refuses Core.Enter: epochs are entered once each and in order.
type EnterError struct {
	Rank   int
	Asked  uint64 // the epoch that was to be entered
	Epoch  uint64 // the epoch the rank stands at
	Inside bool   // it has entered that one already
}

func (e *EnterError) Error() string {
	if e.Inside {
		return fmt.Sprintf("rank %d cannot enter barrier epoch %d, it is still inside epoch %d", e.Rank, e.Asked, e.Epoch)
	}
	return fmt.Sprintf("rank %d cannot enter barrier epoch %d, its next one is %d", e.Rank, e.Asked, e.Epoch)
}

// SendError says that a message without which the epoch cannot end was not
// taken by the Signaler. It stays until Reset.
type SendError struct {
	Message Message
	Err     error
}

func (e *SendError) Error() string {
	return fmt.Sprintf("barrier message «%s» could not be sent: %v", e.Message, e.Err)
}

func (e *SendError) Unwrap() error { return e.Err }

// TimeoutError says that an epoch did not end in time, and because of whom.
type TimeoutError struct {
	Rank  int           // the rank that waited
	Epoch uint64        // the epoch it waits in
	After time.Duration // how long it has waited

	// Missing names, in rising order, the ranks that have not entered the epoch
	// or do not answer. Empty: every rank that was reached has entered, so a
	// message was lost or is on its way from a rank in WaitingFor.
	Missing []int
	// WaitingFor names the neighbours this rank waits for directly.
	WaitingFor []int
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("rank %d waited %v in barrier epoch %d: ", e.Rank, e.After.Round(time.Millisecond), e.Epoch)
	if len(e.Missing) == 0 {
		return s + "nobody is missing, but nothing came from " + ranks(e.WaitingFor)
	}
	return s + ranks(e.Missing) + " missing"
}

// Is makes errors.Is(err, ErrTimeout) work.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// ranks writes a list of ranks as words: "rank 3", "ranks 3, 5", with a tail
// that keeps the line readable when a whole cluster is missing.
func ranks(list []int) string {
	const shown = 16
	words := make([]string, 0, shown)
	for _, r := range list[:min(len(list), shown)] {
		words = append(words, fmt.Sprint(r))
	}
	s := strings.Join(words, ", ")
	if len(list) > shown {
		s += fmt.Sprintf(" and %d more", len(list)-shown)
	}
	if len(list) == 1 {
		return "rank " + s
	}
	return "ranks " + s
}

// sorted returns list in rising order without repetition.
func sorted(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}
