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

// Kinds that take time; the others are snapshots.
const (
	kindCPU   = "cpu"
	kindTrace = "trace"
)

// instantKinds are the profiles that are snapshots, by their names in runtime/pprof.
var instantKinds = []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"}

// profileKinds are all kinds of profiles.
func profileKinds() []string { return append([]string{kindCPU, kindTrace}, instantKinds...) }

// maxLength bounds the time of a profile: the client may leave while the process goes on paying.
const maxLength = 2 * time.Minute

// defaultLength is the time of a profile if the request names none.
const defaultLength = 10 * time.Second

// A KindError requests a profile that does not exist, or that would take too long.
type KindError struct{ Why string }

func (e *KindError) Error() string { return e.Why }

// checkRequest returns a *KindError if a request for a profile is wrong, or nil.
func checkRequest(kind string, length time.Duration) error {
	switch {
	case !slices.Contains(profileKinds(), kind):
		return &KindError{fmt.Sprintf("there is no profile %q: ask for one of %s", kind, strings.Join(profileKinds(), ", "))}
	case length < 0 || length > maxLength:
		return &KindError{fmt.Sprintf("a profile cannot take %v: ask for %v or less", length, maxLength)}
	}
	return nil
}

// WriteProfile writes a profile of this process. length matters only for kinds that take time; 0 means defaultLength.
// If ctx ends early, the profile so far is written.
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
