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
	// errBusy: another goroutine is inside Enter.
	errBusy = errors.New("another goroutine is inside the barrier")
	// errWrongRank: the message is not from a neighbour, or not for this rank.
	errWrongRank = errors.New("wrong rank")
	// errWrongKind: the sender may not send this kind of message to this rank.
	errWrongKind = errors.New("wrong kind")
	// errImpossibleEpoch: the message speaks of an epoch its sender cannot have reached.
	errImpossibleEpoch = errors.New("epoch ahead")
	// errTimeout: the time-out of Enter struck.
	errTimeout = errors.New("barrier timed out")
)

// formatError says why bytes are not a barrier message.
type formatError struct{ Reason string }

func (e *formatError) Error() string { return "barrier message " + e.Reason }

func formatErrorf(format string, args ...any) error {
	return &formatError{Reason: fmt.Sprintf(format, args...)}
}

// messageError refuses a well-formed message that breaks the protocol: the
// state is as if it had never come. Reason is errWrongRank, errWrongKind or
// errImpossibleEpoch.
type messageError struct {
	Rank    int    // the rank that refuses
	Epoch   uint64 // the epoch it stands at
	Message Message
	Reason  error
	Detail  string
}

func (e *messageError) Error() string {
	return fmt.Sprintf("rank %d at barrier epoch %d refuses «%s»: %s: %s", e.Rank, e.Epoch, e.Message, e.Reason, e.Detail)
}

func (e *messageError) Unwrap() error { return e.Reason }

// enterError refuses Core.Enter: epochs are entered once each and in order.
type enterError struct {
	Rank           int
	Requested      uint64 // the epoch that was to be entered
	Epoch          uint64 // the epoch the rank stands at
	AlreadyEntered bool   // it has entered that one already
}

func (e *enterError) Error() string {
	if e.AlreadyEntered {
		return fmt.Sprintf("rank %d cannot enter barrier epoch %d, it is still inside epoch %d", e.Rank, e.Requested, e.Epoch)
	}
	return fmt.Sprintf("rank %d cannot enter barrier epoch %d, its next one is %d", e.Rank, e.Requested, e.Epoch)
}

// sendError says that a message without which the epoch cannot end was not
// taken by the Signaler. It stays until Reset.
type sendError struct {
	Message Message
	Err     error
}

func (e *sendError) Error() string {
	return fmt.Sprintf("barrier message «%s» could not be sent: %v", e.Message, e.Err)
}

func (e *sendError) Unwrap() error { return e.Err }

// TimeoutError says that an epoch did not end in time, and because of whom.
type TimeoutError struct {
	Rank   int           // the rank that waited
	Epoch  uint64        // the epoch it waits in
	Waited time.Duration // how long it has waited

	// Missing names, in rising order, the ranks that have not entered the epoch
	// or do not answer. Empty: every rank that was reached has entered, so a
	// message was lost or is on its way from a rank in waitingFor.
	Missing []int
	// waitingFor names the neighbours this rank waits for directly.
	WaitingFor []int
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("rank %d waited %v in barrier epoch %d: ", e.Rank, e.Waited.Round(time.Millisecond), e.Epoch)
	if len(e.Missing) == 0 {
		return s + "nobody is missing, but nothing came from " + formatRanks(e.WaitingFor)
	}
	return s + formatRanks(e.Missing) + " missing"
}

// Is makes errors.Is(err, errTimeout) work.
func (e *TimeoutError) Is(target error) bool { return target == errTimeout }

// formatRanks writes a list of ranks as words: "rank 3", "ranks 3, 5", with a tail
// that keeps the line readable when a whole cluster is missing.
func formatRanks(list []int) string {
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

// sortUnique returns list in rising order without repetition.
func sortUnique(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}
