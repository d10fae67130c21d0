package sink

import (
	"context"
	"time"

	"ringlet/filter"
)

// Meta is what a builder unit knows of a MEP besides its bytes.
type Meta struct {
	Run        uint32 // run number, for the headers of generated MDF records
	MEP        uint64 // number of the MEP, from 0
	FirstEvent uint64 // event id of its first event
	Events     int    // number of its events
	Attempt    uint32 // how often a builder unit was given it, this time included; the highest attempt counts

	CompletedAt time.Time // when its last byte was in place; zero if unknown

	Decision filter.Decision // of the filter on the MEP's events, if there is a filter
	// Verdicts are those on its events, if a filter has judged a region of interest of the MEP; valid until Write
	// returns. nil: no filter has judged it.
	Verdicts []filter.Verdict
}

// Sink writes the MEPs of one builder unit. One goroutine writes; another may flush.
type Sink interface {
	// Write writes a whole MEP, which the caller may overwrite afterwards. ctx bounds the waiting of sinks that wait.
	Write(ctx context.Context, m Meta, mep []byte) error
	// Flush makes every MEP whose Write has returned as safe as the sink's durability says. It may be called while
	// another goroutine is in Write.
	Flush() error
	// Finish completes the output. Nothing can be written after it.
	Finish() (Result, error)
	// Abort gives the output up: what was written is kept and closed all the same. After Finish, or a second time, it
	// does nothing.
	Abort() error
}

// Lender is a sink that may lend MEPs in their slots instead of copying them.
type Lender interface {
	Sink
	// Lends says whether it lends in this run.
	Lends() bool
	// Lend is Write for a MEP at the beginning of a built slot.
	Lend(ctx context.Context, m Meta, slot int, mep []byte) error
}

// Result is what an output has at its end.
type Result struct {
	Path     string // path or name; empty if there is none
	MEPs     uint64 `count:"output_meps" help:"MEPs in the finished output, copies included"`
	Events   uint64 `count:"output_events" help:"events in the finished output"`
	Bytes    uint64 `count:"output_bytes" unit:"bytes" help:"bytes of the finished output"`
	Segments int    `count:"-"` // closed output segments; SegmentsStats count them
}

// add counts a MEP of the given number of bytes.
func (r *Result) add(m Meta, bytes int) {
	r.MEPs++
	r.Events += uint64(m.Events)
	r.Bytes += uint64(bytes)
}

// Discard is the sink that counts MEPs and keeps nothing.
type Discard struct{ result Result }

// Write counts the MEP.
func (d *Discard) Write(_ context.Context, m Meta, mep []byte) error {
	d.result.add(m, len(mep))
	return nil
}

// Flush does nothing.
func (d *Discard) Flush() error { return nil }

// Finish returns the counts. Result.Bytes are those discarded.
func (d *Discard) Finish() (Result, error) { return d.result, nil }

// Abort does nothing.
func (d *Discard) Abort() error { return nil }
