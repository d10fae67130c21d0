package barrier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sentinels for errors.Is; errors with details unwrap to them.
var (
	// ErrClosed: Close was called.
	ErrClosed = errors.New("the barrier is closed")
	// errBusy: another goroutine is inside Enter.
	errBusy = errors.New("another goroutine is inside the barrier")
	// errWrongRank: the message is not from a neighbour, or not for this rank.
	errWrongRank = errors.New("wrong rank")
	// errWrongKind: the sender may not send this kind of message to this rank.
	errWrongKind = errors.New("wrong kind")
	// errImpossibleEpoch: the sender cannot have reached the message's epoch.
	errImpossibleEpoch = errors.New("epoch ahead")
	// errTimeout: Enter's time-out is over.
	errTimeout = errors.New("barrier timed out")
)

// formatError says why bytes are no barrier message.
type formatError struct{ Reason string }

func (e *formatError) Error() string { return "barrier message " + e.Reason }

func formatErrorf(format string, args ...any) error {
	return &formatError{Reason: fmt.Sprintf(format, args...)}
}

// messageError refuses a well-formed message that breaks the protocol; the message has changed nothing. Reason is
// errWrongRank, errWrongKind or errImpossibleEpoch.
type messageError struct {
	Rank    int    // the rank that refuses
	Epoch   uint64 // its present epoch
	Message Message
	Reason  error
	Detail  string
}

func (e *messageError) Error() string {
	return fmt.Sprintf("rank %d at barrier epoch %d refuses «%s»: %s: %s", e.Rank, e.Epoch, e.Message, e.Reason, e.Detail)
}

func (e *messageError) Unwrap() error { return e.Reason }

// enterError refuses Core.Enter: a rank enters each epoch once, in order.
type enterError struct {
	Rank           int
	Requested      uint64 // the epoch that the caller wanted to enter
	Epoch          uint64 // the rank's present epoch
	AlreadyEntered bool   // the rank is inside Epoch
}

func (e *enterError) Error() string {
	if e.AlreadyEntered {
		return fmt.Sprintf("rank %d cannot enter barrier epoch %d, it is still inside epoch %d", e.Rank, e.Requested, e.Epoch)
	}
	return fmt.Sprintf("rank %d cannot enter barrier epoch %d, its next one is %d", e.Rank, e.Requested, e.Epoch)
}

// sendError says that the Signaler refused a message without which the epoch cannot end. Enter returns it until the
// next generation begins.
type sendError struct {
	Message Message
	Err     error
}

func (e *sendError) Error() string {
	return fmt.Sprintf("barrier message «%s» could not be sent: %v", e.Message, e.Err)
}

func (e *sendError) Unwrap() error { return e.Err }

// TimeoutError says that an epoch did not end in time, and which ranks are the cause.
type TimeoutError struct {
	Rank   int           // the rank that waited
	Epoch  uint64        // the epoch it waits in
	Waited time.Duration // how long it has waited

	// Missing are the ranks, in rising order, that have not entered the epoch or do not answer. Empty: every rank that
	// answered has entered, so a message from a rank in WaitingFor was lost or is on its way.
	Missing []int
	// WaitingFor are the neighbours that this rank waits for directly.
	WaitingFor []int
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("rank %d waited %v in barrier epoch %d: ", e.Rank, e.Waited.Round(time.Millisecond), e.Epoch)
	if len(e.Missing) == 0 {
		return s + "no rank is missing, but no message came from " + formatRanks(e.WaitingFor)
	}
	return s + formatRanks(e.Missing) + " missing"
}

// Is makes errors.Is(err, errTimeout) work.
func (e *TimeoutError) Is(target error) bool { return target == errTimeout }

// formatRanks writes a list of ranks, such as "rank 3" or "ranks 3, 5"; of a long list it writes 16.
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
