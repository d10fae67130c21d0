package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"ringlet/event/placing"
	"ringlet/internal/safeopen"
)

// OpenReplay opens the file as package safeopen does, checks every record of it, learns its cabling and computes the
// sizes of its blocks. A bad record is not an error here: Next returns it when its turn comes. The error is a
// *ConfigError, that of opening the file, or that of ctx, which ends the reading of a large file.
func OpenReplay(ctx context.Context, c ReplayConfig) (*Replay, error) {
	f, err := safeopen.Open(c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot replay: %w", err)
	}
	defer func() { _ = f.Close() }() // the mapping stays
	r, err := mapMDF(ctx, f, c)
	if err != nil {
		return nil, err
	}
	if err := r.measureBlocks(ctx); err != nil {
		return nil, errors.Join(err, r.file.close())
	}
	return r, nil
}

// RunNeeds is what all readout units together need for a replay.
type RunNeeds struct {
	Division    placing.Division // the sources of each readout unit
	MaxMEPBytes int              // bytes that the MFPs of the largest MEP take, without its header
}

// measureMDF reads a file as OpenReplay does and returns what a run over it needs; c.Path is only the file's name in
// errors. The size of the file and constants bound what it allocates, however many streams there are and whatever the
// file says.
func measureMDF(ctx context.Context, f *os.File, c ReplayConfig) (RunNeeds, error) {
	r, err := mapMDF(ctx, f, c)
	if err != nil {
		return RunNeeds{}, err
	}
	return r.needs(), r.file.close()
}

// mapMDF maps a file and learns from it what is the same for all readout units.
func mapMDF(ctx context.Context, f *os.File, c ReplayConfig) (*Replay, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	m, err := mapFile(f, c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot replay: %w", err)
	}
	r := &Replay{replayLoop: replayLoop{cfg: c, file: m}}
	if err := r.read(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return r, nil
}

// read reads the mapped file and learns its records, keys and cabling.
func (r *Replay) read(ctx context.Context) (err error) {
	defer r.recoverFault(debug.SetPanicOnFault(true), &err)
	c := r.cfg
	r.format = r
	cat, err := scanMDF(ctx, r.file.data, c.Path, c.Events, c.OnBadRecord)
	if err != nil {
		return err
	}
	r.cat = cat
	if r.cabling, err = newCabling(ctx, cat, r.file.data, c); err != nil {
		return err
	}
	if err := r.begin(r, &cat.omitted, r.cabling.division); err != nil {
		return err
	}
	if c.PaceAsRecorded {
		if err := r.learnDueTimes(); err != nil {
			return err
		}
	}
	total := func(i int) int { return cat.records[i].fragmentBytes() } // each bank is in exactly one stream
	r.maxMEP = r.cabling.streamCount()*cat.headerBytes(c.Packing) +
		heaviestBlock(len(cat.records), total, c.Packing, c.Loop)
	return nil
}

// recordFragment is the fragment that one of this RU's streams has in one event, if it is not empty.
type recordFragment struct {
	stream    uint16 // of this RU, from 0
	low, high uint16 // bytes: two halves take less memory than one word
}

func (p recordFragment) size() int { return int(p.low) | int(p.high)<<16 }

// measureBlocks computes the sizes of this RU's fragments and the bound of its blocks, and allocates what Next needs.
func (r *Replay) measureBlocks(ctx context.Context) (err error) {
	defer r.recoverFault(debug.SetPanicOnFault(true), &err)
	local := make([]uint32, len(r.cat.records)) // bytes of this RU's fragments, by record
	r.fragments, r.fragmentEnds = nil, make([]int, len(r.cat.records))
	sums := newFragmentSizes(r.cabling.streamCount())
	look := contextPoller{ctx: ctx}
	banks := uint16(0)
	for i, ref := range r.cat.records {
		if err := r.cabling.measureRecord(ref, r.file.data, sums); err != nil {
			return r.recordChanged(i)
		}
		for _, source := range sums.nonEmpty {
			if s, isLocal := r.localStream(int(source)); isLocal {
				local[i] += sums.size[source]
				size := sums.size[source]
				r.fragments = append(r.fragments, recordFragment{uint16(s), uint16(size), uint16(size >> 16)})
			}
		}
		r.fragmentEnds[i] = len(r.fragments)
		banks = max(banks, ref.bankCount)
		if err := look.advance(int(ref.fileBytes)); err != nil {
			return err
		}
	}
	weight := func(i int) int { return int(local[i]) }
	r.maxBlock = r.sourceCount*r.cat.headerBytes(r.cfg.Packing) +
		heaviestBlock(len(local), weight, r.cfg.Packing, r.cfg.Loop)
	r.streams = make([]uint16, 0, banks)
	r.nextOffsets, r.currentEnds, r.mfpStarts = make([]int, r.sourceCount), make([]int, r.sourceCount), make([]int,
		r.sourceCount)
	r.wide = make([]bool, r.sourceCount)
	return checkBlockSize(r.maxBlock, r.cfg)
}

// fragmentsOf returns this RU's fragments of a record that are not empty.
func (r *Replay) fragmentsOf(record int) []recordFragment {
	from := 0
	if record > 0 {
		from = r.fragmentEnds[record-1]
	}
	return r.fragments[from:r.fragmentEnds[record]]
}

// heaviestBlock returns the largest sum of packing consecutive weights, of n in all, that a block can have. Blocks
// begin at multiples of packing. In a loop they begin anywhere, and go on from the last weight to the first.
func heaviestBlock(n int, weight func(int) int, packing int, loop bool) int {
	most, sum := 0, 0
	if n == 0 {
		return 0
	}
	if !loop {
		for i := range n {
			if i%packing == 0 {
				sum = 0
			}
			sum += weight(i)
			most = max(most, sum)
		}
		return most
	}
	total := 0
	for i := range n {
		total += weight(i)
		if i < packing%n {
			sum += weight(i)
		}
	}
	for i := range n {
		most = max(most, sum)
		sum += weight((i+packing%n)%n) - weight(i)
	}
	return packing/n*total + most
}
