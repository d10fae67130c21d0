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
	kindCPU   = "cpu"
	kindTrace = "trace"
)

// instantKinds are the profiles of a moment, by the names of runtime/pprof.
var instantKinds = []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"}

// profileKinds of profiles there are.
func profileKinds() []string { return append([]string{kindCPU, kindTrace}, instantKinds...) }

// maxLength is how long a profile may take: whoever asks may go away, and the process goes on paying.
const maxLength = 2 * time.Minute

// defaultLength is how long a profile takes where nobody says.
const defaultLength = 10 * time.Second

// A KindError asks for a profile that there is none of, or for too long.
type KindError struct{ Why string }

func (e *KindError) Error() string { return e.Why }

// checkRequest says what is wrong with a request for a profile: a *KindError, or nil.
func checkRequest(kind string, length time.Duration) error {
	switch {
	case !slices.Contains(profileKinds(), kind):
		return &KindError{fmt.Sprintf("there is no profile %q: ask for one of %s", kind, strings.Join(profileKinds(), ", "))}
	case length < 0 || length > maxLength:
		return &KindError{fmt.Sprintf("a profile of %v is not to be had: ask for %v or less", length, maxLength)}
	}
	return nil
}

// WriteProfile writes a profile of this process. One of a moment takes no time, whatever is asked; of the others 0
// means defaultLength. ctx ends one early: what there is of it is written.
func WriteProfile(ctx context.Context, w io.Writer, kind string, length time.Duration) error {
	if err := checkRequest(kind, length); err != nil {
		return err
	}
	if length == 0 {
		length = defaultLength
	}
	switch kind {
	case kindCPU:
		return runFor(ctx, length, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case kindTrace:
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
