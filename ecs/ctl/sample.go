package ctl

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	samplev1 "ringlet/proto/ringlet/sample/v1"
)

// sample writes samples of a node's counters: a summary at the end, or each sample as a line of CSV or an object of
// JSON.
func (s *Session) sample(ctx context.Context, st *step) error {
	every := st.duration("every")
	if st.Args["every"] == "" {
		every = time.Millisecond
	}
	if every > time.Hour {
		return &usageError{doSample, "every: the time between two samples is at most 10s"}
	}
	q := &samplev1.Question{
		Node:       st.Args["node"],
		IntervalUs: uint32(max(1, every.Microseconds())),
		Samples:    st.number("samples"),
		Each:       st.Args["each"] == "true",
	}
	if names := st.Args["counters"]; names != "" {
		q.Counters = strings.Split(names, ",")
	}
	t := &sampleOutput{out: bufio.NewWriter(s.cfg.Out)}
	switch {
	case s.cfg.JSON:
		t.onSample = t.writeJSONObject
	case st.Args["csv"] == "true":
		t.onSample = t.writeCSVLine
	default:
		t.onSample = t.addToSummary
	}
	in, err := s.client.Sample(ctx, q)
	for err == nil {
		var m *samplev1.Samples
		if m, err = in.Recv(); err == nil {
			if err := t.receive(m); err != nil {
				return err
			}
		}
	}
	if !errors.Is(err, io.EOF) && ctx.Err() == nil && status.Code(err) != codes.Canceled {
		return errorOf(doSample, s.cfg.Address, err)
	}
	if err := t.writeSummary(); err != nil {
		return err
	}
	fmt.Fprintf(s.cfg.Err, "%d samples of run %d; %d were not taken when they were due, %d were thrown away unread\n",
		t.sampleCount, t.run, t.lateSamples, t.overwrittenSamples)
	return nil
}

// sampleOutput writes the samples that have come.
type sampleOutput struct {
	out      *bufio.Writer
	onSample func(at int64, values []uint64) error

	columns                         []*samplev1.Column
	names                           []string
	sampleCount                     int
	run                             uint32
	overwrittenSamples, lateSamples uint64

	// of a summary
	firstAt, lastAt int64
	first, last     []uint64
	maxima          []float64 // greatest rate per second between two samples; of levels, the greatest value
}

func (t *sampleOutput) receive(m *samplev1.Samples) error {
	if t.columns == nil {
		t.columns, t.run = m.GetColumns(), m.GetRun()
		for _, c := range t.columns {
			name := c.GetName()
			if c.GetOf() != "" {
				name += "@" + c.GetOf()
			}
			t.names = append(t.names, stripControlChars(name))
		}
	}
	t.overwrittenSamples, t.lateSamples = m.GetMissed(), m.GetLate()
	width := len(t.columns)
	if width == 0 || len(m.GetValues()) != width*len(m.GetAtUs()) {
		return &Error{Command: doSample, ExitCode: exitFault, Why: fmt.Sprintf(
			"the control sent %d values for %d samples of %d columns", len(m.GetValues()), len(m.GetAtUs()), width)}
	}
	for i, at := range m.GetAtUs() {
		if err := t.onSample(at, m.GetValues()[i*width:(i+1)*width]); err != nil {
			return err
		}
		t.sampleCount++
	}
	return t.out.Flush()
}

// writeCSVLine writes a sample as CSV, after a line of names before the first.
func (t *sampleOutput) writeCSVLine(at int64, values []uint64) error {
	w := csv.NewWriter(t.out)
	if t.sampleCount == 0 {
		if err := w.Write(append([]string{"at_us"}, t.names...)); err != nil {
			return err
		}
	}
	fields := []string{strconv.FormatInt(at, 10)}
	for _, v := range values {
		fields = append(fields, strconv.FormatUint(v, 10))
	}
	if err := w.Write(fields); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

// writeJSONObject writes a sample as JSON.
func (t *sampleOutput) writeJSONObject(at int64, values []uint64) error {
	o := map[string]any{"at_us": at}
	for i, v := range values {
		o[t.names[i]] = v
	}
	text, err := json.Marshal(o)
	if err == nil {
		_, err = t.out.Write(append(text, '\n'))
	}
	return err
}

// addToSummary adds a sample to the summary.
func (t *sampleOutput) addToSummary(at int64, values []uint64) error {
	if t.sampleCount == 0 {
		t.firstAt, t.first = at, append([]uint64(nil), values...)
		t.last, t.maxima = append([]uint64(nil), values...), make([]float64, len(values))
		t.lastAt = at
	}
	for i, v := range values {
		if t.columns[i].GetKind() != "counter" {
			t.maxima[i] = max(t.maxima[i], float64(v))
		} else if at > t.lastAt && v >= t.last[i] {
			t.maxima[i] = max(t.maxima[i], float64(v-t.last[i])/float64(at-t.lastAt)*1e6)
		}
	}
	t.lastAt = at
	copy(t.last, values)
	return nil
}

// writeSummary writes the summary.
func (t *sampleOutput) writeSummary() error {
	if t.first == nil {
		return t.out.Flush()
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "counter\tsum\ta second\tmost a second")
	seconds := float64(t.lastAt-t.firstAt) / 1e6
	for i, c := range t.columns {
		if c.GetKind() != "counter" {
			fmt.Fprintf(w, "%s\t%d at the end\t\t%.0f at most\n", t.names[i], t.last[i], t.maxima[i])
			continue
		}
		grown := t.last[i] - min(t.first[i], t.last[i])
		rate := 0.0
		if seconds > 0 {
			rate = float64(grown) / seconds
		}
		most := strconv.FormatFloat(t.maxima[i], 'f', 0, 64)
		if c.GetSlow() {
			most = "–" // it is not read with each sample, so its steps are no rates
		}
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\n", t.names[i], grown, rate, most)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return t.out.Flush()
}
