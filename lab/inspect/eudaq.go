package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"ringlet/event"
	"ringlet/event/eudaq"
)

// maxEUDAQ bounds the part of a EUDAQ file that is read: the end of an event is known only by decoding all of it.
const maxEUDAQ = 4 << 30

// mostDevices bounds the list of devices, if the file is damaged.
const mostDevices = 1000

// device is a source of a EUDAQ file.
type device struct {
	Name string `json:"name"`
	sizeStats
}

// eudaqReport is the summary of a EUDAQ file.
type eudaqReport struct {
	File     string    `json:"file"`
	Format   Format    `json:"format"`
	Events   sizeStats `json:"events"`
	Numbers  idRange   `json:"numbers"`
	Runs     []uint32  `json:"runs"`
	Devices  []device  `json:"devices"`
	BadInput string    `json:"bad_input,omitempty"`
}

// inspectEUDAQ looks into a file of EUDAQ 2. A verification is only its summary: the format has no checksums.
func inspectEUDAQ(ctx context.Context, out io.Writer, in *bufio.Reader, path string, opts Options) error {
	data, err := io.ReadAll(io.LimitReader(&contextReader{ctx, in}, maxEUDAQ+1))
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if len(data) > maxEUDAQ {
		return &BadInputError{Path: path, Problems: 1, First: errors.New("it has more than 4 GiB, and files of EUDAQ are " +
			"looked at up to that size")}
	}
	r := eudaqReport{File: path, Format: FormatEUDAQ}
	devices, runs := map[string]*sizeStats{}, map[uint32]bool{}
	var subs []eudaq.Event
	var bad error
	for at, n := 0, 0; at < len(data) && (opts.Limit == 0 || n < opts.Limit); n++ {
		var e eudaq.Event
		if e, subs, err = eudaq.Parse(data[at:], subs); err != nil {
			bad = event.LocateError(err, int64(n), int64(at))
			break
		}
		at += len(e.Bytes)
		r.add(&e, subs, devices, runs)
		if opts.Mode == ModeDump {
			if err := dumpEUDAQ(out, &e, subs, opts.JSON); err != nil {
				return err
			}
		}
	}
	if opts.Mode != ModeDump {
		for _, name := range slices.Sorted(maps.Keys(devices)) {
			r.Devices = append(r.Devices, device{name, *devices[name]})
		}
		r.Runs = slices.Sorted(maps.Keys(runs))
		if bad != nil {
			r.BadInput = bad.Error()
		}
		if err := r.print(out, opts.JSON); err != nil {
			return err
		}
	}
	if bad != nil {
		return &BadInputError{Path: path, Problems: 1, First: bad}
	}
	return nil
}

// add counts an event. An event without sub-events counts as its own sub-event.
func (r *eudaqReport) add(e *eudaq.Event, subs []eudaq.Event, devices map[string]*sizeStats, runs map[uint32]bool) {
	r.Events.add(len(e.Bytes))
	r.Numbers.add(uint64(e.Number), uint64(e.Number))
	if len(runs) < maxRuns {
		runs[e.Run] = true
	}
	if len(subs) == 0 {
		subs = []eudaq.Event{*e}
	}
	for i := range subs {
		name := fmt.Sprintf("%.64q device %d", subs[i].Description, subs[i].Stream)
		if devices[name] == nil {
			if len(devices) == mostDevices {
				continue
			}
			devices[name] = &sizeStats{}
		}
		devices[name].add(len(subs[i].Bytes))
	}
}

// print writes the summary.
func (r *eudaqReport) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprintf(out, "%s: eudaq, %d events, %d bytes, numbers %d to %d, runs %v\n", r.File, r.Events.Count,
		r.Events.Bytes, r.Numbers.First, r.Numbers.Last, r.Runs)
	for _, d := range r.Devices {
		if err == nil {
			_, err = fmt.Fprintf(out, "  %s: %d in events, %d to %d bytes, mean %.1f\n", d.Name, d.Count, d.Min, d.Max, d.Mean)
		}
	}
	return err
}

// dumpEUDAQ writes an event and its sub-events.
func dumpEUDAQ(out io.Writer, e *eudaq.Event, subs []eudaq.Event, asJSON bool) error {
	type line struct {
		Number  uint32 `json:"number"`
		Run     uint32 `json:"run"`
		Name    string `json:"name"`
		Device  uint32 `json:"device"`
		Trigger uint32 `json:"trigger"`
		Flags   uint32 `json:"flags"`
		Bytes   int    `json:"bytes"`
		Subs    []line `json:"sub_events,omitempty"`
	}
	of := func(e *eudaq.Event) line {
		return line{e.Number, e.Run, string(e.Description), e.Stream, e.TriggerNumber, e.Flags, len(e.Bytes), nil}
	}
	eventLine := of(e)
	for i := range subs {
		eventLine.Subs = append(eventLine.Subs, of(&subs[i]))
	}
	if asJSON {
		return json.NewEncoder(out).Encode(eventLine)
	}
	_, err := fmt.Fprintf(out, "event %d run %d %.64q device %d trigger %d flags %#x %d bytes\n", eventLine.Number,
		eventLine.Run, eventLine.Name, eventLine.Device, eventLine.Trigger, eventLine.Flags, eventLine.Bytes)
	for _, s := range eventLine.Subs {
		if err == nil {
			_, err = fmt.Fprintf(out, "  event %d %.64q device %d trigger %d flags %#x %d bytes\n", s.Number, s.Name, s.Device,
				s.Trigger, s.Flags, s.Bytes)
		}
	}
	return err
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (h *contextReader) Read(b []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.r.Read(b)
}
