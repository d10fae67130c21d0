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
	"ringlet/event/eudaq"
	"ringlet/internal/safeopen"
)

// replayer is a replay of any format but MDF.
type replayer interface {
	Source
	needs() RunNeeds
}

// openRecorded opens a file of recorded events of any format: see OpenReplay for MDF. Of a file of MEPs or MFPs it
// checks all headers and tables, of a file of EUDAQ all lengths.
func openRecorded(ctx context.Context, c ReplayConfig) (Source, error) {
	f, err := safeopen.Open(c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot replay: %w", err)
	}
	defer func() { _ = f.Close() }() // the mapping stays
	p, err := openOtherFormat(ctx, f, c)
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
	if c.PaceAsRecorded {
		return pacedAsRecorded(r), nil
	}
	return r, nil
}

// measureFile returns what a run over a file of any format needs.
func measureFile(ctx context.Context, f *os.File, c ReplayConfig) (RunNeeds, error) {
	p, err := openOtherFormat(ctx, f, c)
	switch {
	case err != nil:
		return RunNeeds{}, err
	case p == nil:
		return measureMDF(ctx, f, c)
	}
	return p.needs(), p.Close()
}

// openOtherFormat maps a file and reads it if its first bytes say that it is of another format than MDF; otherwise it
// returns nil without an error.
func openOtherFormat(ctx context.Context, f *os.File, c ReplayConfig) (replayer, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	m, err := mapFile(f, c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot replay: %w", err)
	}
	p := &packetFile{replayLoop: replayLoop{cfg: c, file: m}}
	isPackets, err := p.scanFile(ctx)
	if err == nil && isPackets {
		return p, nil
	}
	if err == nil && p.isEudaq {
		e := &eudaqFile{replayLoop: replayLoop{cfg: c, file: m}}
		if err = e.scanFile(ctx); err == nil {
			return e, nil
		}
	}
	return nil, errors.Join(err, m.close())
}

// scanFile reads the mapped file and learns its packets; false if the file has no packets.
func (r *packetFile) scanFile(ctx context.Context) (looksLike bool, err error) {
	defer r.recoverFault(debug.SetPanicOnFault(true), &err)
	c := r.cfg
	format := event.DetectFormat(r.file.data)
	if format != event.FormatMEP && format != event.FormatMFP { // a file of unknown format is treated as MDF
		if r.isEudaq = eudaq.HasSignature(r.file.data); !r.isEudaq && format == "" {
			looksLike, do := event.DescribeForeign(r.file.data[:min(len(r.file.data), event.BytesToDescribe)])
			if looksLike != "" {
				return false, &ConfigError{"input", fmt.Sprintf("%s is no file of MDF, MEP, MFP or EUDAQ 2: it looks like %s; %s",
					c.Path, looksLike, do)}
			}
		}
		return false, nil
	}
	if c.PaceAsRecorded {
		return false, noTimesError(c.Path, strings.ToUpper(format)+"s")
	}
	cat, err := scanPackets(ctx, r.file.data, format, c)
	if err != nil {
		return false, err
	}
	r.cat = cat
	if len(cat.shapes) == 0 {
		cat.division = emptyDivision(c)
	}
	if err := r.begin(r, &cat.omitted, cat.division); err != nil {
		return false, err
	}
	r.maxBlock = maxBlockBytes(r.sourceCount, cat.localBytes, cat.headerSize(c.Packing), c)
	r.maxMEP = maxBlockBytes(cat.division.Sources(), cat.totalBytes, cat.headerSize(c.Packing), c)
	if err := checkBlockSize(r.maxBlock, c); err != nil {
		return false, err
	}
	cat.localBytes, cat.totalBytes = nil, nil
	return true, nil
}

// headerSize is the size of the largest header of an MFP of n events.
func (c *packetCatalog) headerSize(n int) int {
	switch {
	case c.hasWorded:
		return event.WordedMFPHeaderSize(n)
	case c.hasWide:
		return event.WideMFPHeaderSize(n)
	}
	return event.MFPHeaderSize(n)
}

// maxBlockBytes returns an upper bound of the bytes that the MFPs of all sources take in a block. weights are the bytes
// of all fragments of one event, event by event; header is the size of an MFP's header.
func maxBlockBytes(sources int, weights []uint32, header int, c ReplayConfig) int {
	weight := func(i int) int { return int(weights[i]) }
	// Up to 3 bytes pad each MFP to a multiple of 4.
	return roundUpToWord(sources*(header+3) +
		heaviestBlock(len(weights), weight, c.Packing, c.Loop))
}

// checkBlockSize refuses blocks in which an MFP may have more bytes than its header can say.
func checkBlockSize(size int, c ReplayConfig) error {
	if size > math.MaxUint32 {
		return &ConfigError{"packing", fmt.Sprintf("%d events of %s take %d bytes in a readout unit: lower packing",
			c.Packing, c.Path, size)}
	}
	return nil
}
