package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"

	"ringlet/event"
	"ringlet/internal/regular"
)

// OpenFile opens a file of recorded events, whatever its format is: see OpenReplay for MDF. Of a file of MEPs or MFPs
// it checks all headers and tables.
func OpenFile(ctx context.Context, c ReplayConfig) (Source, error) {
	f, err := regular.Open(c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot replay: %w", err)
	}
	defer func() { _ = f.Close() }() // the mapping stays
	p, err := learnPackets(ctx, f, c)
	switch {
	case err != nil:
		return nil, err
	case p != nil:
		return p, nil
	}
	r, err := OpenReplay(ctx, c)
	if err != nil {
		return nil, err
	}
	if c.AsTaken {
		return asTaken(r), nil
	}
	return r, nil
}

// measureFile is Measure for a file of any format.
func measureFile(ctx context.Context, f *os.File, c ReplayConfig) (Needs, error) {
	p, err := learnPackets(ctx, f, c)
	switch {
	case err != nil:
		return Needs{}, err
	case p == nil:
		return Measure(ctx, f, c)
	}
	return Needs{p.streams, c.RUs * p.streams, p.maxMEP}, p.file.close()
}

// learnPackets maps a file and learns what it holds; nil without an error where it is one of MDF.
func learnPackets(ctx context.Context, f *os.File, c ReplayConfig) (*Packets, error) {
	if err := checkShape(c.RU, c.RUs, max(c.Streams, 1), c.Packing); err != nil {
		return nil, err
	}
	m, err := mapFile(f, c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot replay: %w", err)
	}
	r := &Packets{cfg: c, file: m}
	is, err := r.learn(ctx)
	if err != nil || !is {
		return nil, errors.Join(err, m.close())
	}
	return r, nil
}

// learn learns what the mapped file holds; false where it is no file of packets.
func (r *Packets) learn(ctx context.Context) (is bool, err error) {
	defer r.guard(debug.SetPanicOnFault(true), &err)
	c := r.cfg
	format := event.FormatOf(r.file.data)
	if format != event.FormatMEP && format != event.FormatMFP { // what tells nothing is judged as MDF
		return false, nil
	}
	if c.AsTaken {
		return false, noTimes(c.Path, strings.ToUpper(format)+"s")
	}
	cat, err := scanPackets(ctx, r.file.data, format, c)
	if err != nil {
		return false, err
	}
	r.cat = cat
	if c.Loop && len(cat.rows) == 0 && cat.bad == nil {
		return false, &ConfigError{"loop", fmt.Sprintf("%s holds no event that could be repeated", c.Path)}
	}
	if r.streams = len(cat.shapes) / c.RUs; r.streams == 0 { // nothing that could be replayed
		r.streams = max(c.Streams, 1)
	}
	if err := checkShape(c.RU, c.RUs, r.streams, c.Packing); err != nil {
		return false, err
	}
	room := func(sources int, weights []uint32) int {
		weight := func(i int) int { return int(weights[i]) }
		// Each MFP begins at a multiple of 4.
		return sources*(event.MFPHeaderSize(c.Packing)+3) + heaviest(len(weights), weight, c.Packing, c.Loop)
	}
	r.maxBlock = roundUp(room(r.streams, cat.own))
	r.maxMEP = roundUp(room(c.RUs*r.streams, cat.all))
	if r.maxBlock > math.MaxUint32 {
		return false, &ConfigError{"packing", fmt.Sprintf("%d events of %s take %d bytes in a readout unit: lower packing",
			c.Packing, c.Path, r.maxBlock)}
	}
	cat.own, cat.all = nil, nil
	r.batch = make([]stretch, 0, c.Packing)
	return true, nil
}
