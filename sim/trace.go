package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Trace writes what happens as Chrome trace events, a JSON array that Perfetto (ui.perfetto.dev) and chrome://tracing
// open. Each component has a track. It writes a limited number of events, and counts those it drops.
//
// A nil *Trace writes nothing, so models need not check.
//
// Format: "Trace Event Format", JSON Array Format; ph X (complete), i (instant), C (counter), M (metadata); ts and dur
// in microseconds.
type Trace struct {
	w          *bufio.Writer
	eventsLeft int
	dropped    uint64
	tracks     int
	err        error
}

// Track is a line of the trace.
type Track int

// NewTrace writes to w, at most limit events.
func NewTrace(w io.Writer, limit int) *Trace {
	t := &Trace{w: bufio.NewWriter(w), eventsLeft: limit}
	t.print("[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"ringlet sim\"}}")
	return t
}

// Track makes a line of that name.
func (t *Trace) Track(name string) Track {
	if t == nil {
		return 0
	}
	t.tracks++
	t.print(",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":%s}}", t.tracks,
		quote(name))
	return Track(t.tracks)
}

// Span writes something that lasts from one time to another; arg is its id (an event, a packet).
func (t *Trace) Span(on Track, name string, from, to Time, arg int64) {
	if t.takeBudget() {
		t.print(",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":%s,\"ts\":%s,\"dur\":%s,\"args\":{\"id\":%d}}",
			on, quote(name), formatMicros(from), formatMicros(to-from), arg)
	}
}

// Instant writes something that happens at one time.
func (t *Trace) Instant(on Track, name string, at Time, arg int64) {
	if t.takeBudget() {
		t.print(",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":%d,\"name\":%s,\"ts\":%s,\"args\":{\"id\":%d}}",
			on, quote(name), formatMicros(at), arg)
	}
}

// recordLevel writes a level at a time; Perfetto draws a curve of that name.
func (t *Trace) recordLevel(name string, at Time, value int64) {
	if t.takeBudget() {
		t.print(",\n{\"ph\":\"C\",\"pid\":1,\"name\":%s,\"ts\":%s,\"args\":{\"value\":%d}}", quote(name), formatMicros(at),
			value)
	}
}

// Close ends the array, and returns how many events were dropped, and the first error of the writer.
func (t *Trace) Close() (dropped uint64, err error) {
	if t == nil {
		return 0, nil
	}
	t.print("\n]\n")
	if err := t.w.Flush(); t.err == nil {
		t.err = err
	}
	return t.dropped, t.err
}

func (t *Trace) takeBudget() bool {
	if t == nil {
		return false
	}
	if t.eventsLeft == 0 {
		t.dropped++
		return false
	}
	t.eventsLeft--
	return true
}

func (t *Trace) print(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format, args...); err != nil && t.err == nil {
		t.err = fmt.Errorf("writing the trace: %w", err)
	}
}

// formatMicros writes a time in microseconds without rounding.
func formatMicros(t Time) string {
	sign := ""
	if t < 0 {
		sign, t = "-", -t
	}
	return fmt.Sprintf("%s%d.%06d", sign, t/Microsecond, t%Microsecond)
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
