package profile

import (
	"context"
	"fmt"
	"io"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"time"
)

// kinds that take time; the others are of a moment.
const (
	cpu     = "cpu"
	tracing = "trace"
)

// instantKinds are the profiles of a moment, by the names of runtime/pprof.
var instantKinds = []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"}

// kinds of profiles there are.
func kinds() []string { return append([]string{cpu, tracing}, instantKinds...) }

// maxLength is how long a profile may take: whoever asks may go away, and the process goes on paying.
const maxLength = 2 * time.Minute

// defaultLength is how long a profile takes where nobody says.
const defaultLength = 10 * time.Second

// A KindError asks for a profile that there is none of, or for too long.
type KindError struct{ Why string }

func (e *KindError) Error() string { return e.Why }

// check says what is wrong with a request for a profile: a *KindError, or nil.
func check(kind string, length time.Duration) error {
	switch {
	case !slices.Contains(kinds(), kind):
		return &KindError{fmt.Sprintf("there is no profile %q: ask for one of %s", kind, strings.Join(kinds(), ", "))}
	case length < 0 || length > maxLength:
		return &KindError{fmt.Sprintf("a profile of %v is not to be had: ask for %v or less", length, maxLength)}
	}
	return nil
}

// Write writes a profile of this process. One of a moment takes no time, whatever is asked; of the others 0 means
// defaultLength. ctx ends one early: what there is of it is written.
func Write(ctx context.Context, w io.Writer, kind string, length time.Duration) error {
	if err := check(kind, length); err != nil {
		return err
	}
	if length == 0 {
		length = defaultLength
	}
	switch kind {
	case cpu:
		return runFor(ctx, length, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case tracing:
		return runFor(ctx, length, func() error { return trace.Start(w) }, trace.Stop)
	}
	return pprof.Lookup(kind).WriteTo(w, 0)
}

func runFor(ctx context.Context, length time.Duration, start func() error, stop func()) error {
	if err := start(); err != nil {
		return fmt.Errorf("one profile of a kind is taken at a time: %w", err)
	}
	defer stop()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}
