package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ringlet/event"
	"ringlet/event/eudaq"
	"ringlet/node/config"
	"ringlet/recording"
)

// input is a file that was replayed: event k is record k, or in a loop record k modulo the number of records.
type input struct {
	path       string
	f          *os.File
	recordEnds []int64 // end offset of each record
	loop       bool
	scratch    sync.Pool // of *scratch
}

// replayed makes the comparison with a run's input.
func replayed(ctx context.Context, m *recording.Manifest, c *config.Completed) (recording.Content, error) {
	if c.OnBadRecord == "skip" {
		return nil,
			fmt.Errorf("run %d cannot be compared with its input: its replay could skip records, so nothing tells which event "+
				"is which record of %s", m.Run, c.Input)
	}
	// O_NONBLOCK: a pipe must not block here.
	f, err := os.OpenFile(c.InputFile(), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("run %d cannot be compared with its input: %w", m.Run, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", c.InputFile())
	}
	in := &input{path: c.Input, f: f, loop: c.Loop}
	if err == nil {
		err = checkMDF(f)
	}
	if err == nil {
		err = in.indexRecords(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run %d cannot be compared with its input: %w", m.Run, err), f.Close())
	}
	return in, nil
}

// checkMDF refuses a file of packets: this package cannot find the fragments of an event in it.
func checkMDF(f *os.File) error {
	head := make([]byte, 12)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if format := event.DetectFormat(head[:n]); format == event.FormatMEP || format == event.FormatMFP {
		return fmt.Errorf("%s is a file of %ss, and only replays of MDF are compared", f.Name(), strings.ToUpper(format))
	}
	if eudaq.HasSignature(head[:n]) {
		return fmt.Errorf("%s is a file of EUDAQ, and only replays of MDF are compared", f.Name())
	}
	return nil
}

// indexRecords finds the records up to the first bad one, where the replay ended.
func (in *input) indexRecords(ctx context.Context) error {
	r := event.NewUnitReader(in.f, event.UnitReaderOptions{Verify: true})
	for {
		record, err := r.Next()
		var bad *event.FormatError
		switch {
		case errors.Is(err, io.EOF) || errors.As(err, &bad):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		in.recordEnds = append(in.recordEnds, r.Offset()+int64(len(record)))
	}
}

// record reads the record of an event, and decompresses it.
func (in *input) record(s *scratch, id uint64) error {
	n := uint64(len(in.recordEnds))
	if n == 0 || id >= n && !in.loop {
		return fmt.Errorf("there is no event %d in %s, which has %d", id, in.path, n)
	}
	from, to := int64(0), in.recordEnds[id%n]
	if id%n > 0 {
		from = in.recordEnds[id%n-1]
	}
	if int64(cap(s.record)) < to-from {
		s.record = make([]byte, to-from)
	}
	s.record = s.record[:to-from]
	if _, err := in.f.ReadAt(s.record, from); err != nil {
		return err
	}
	plain, err := event.Record(s.record).Unpacked(&s.unpacked)
	s.plain = plain
	return err
}

// Close closes the file.
func (in *input) Close() error { return in.f.Close() }

// Check compares the events of a MEP with the records of the input.
func (in *input) Check(f recording.Format, e *recording.Entry, data []byte) error {
	s, ok := in.scratch.Get().(*scratch)
	if !ok {
		s = &scratch{}
	}
	defer in.scratch.Put(s)
	if f != recording.FormatMDF {
		return in.compareFragments(s, f, e, data)
	}
	c := event.NewMDFCursor(data, false)
	for id := e.FirstEvent; ; id++ {
		got, err := c.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = in.compareRecord(s, id, got)
		}
		if err != nil {
			return err
		}
	}
}

func (in *input) compareRecord(s *scratch, id uint64, got []byte) error {
	if err := in.record(s, id); err != nil {
		return err
	}
	return compareEvent(id, got, s.plain, "the input has")
}

// compareFragments rebuilds the records of a MEP, and compares them.
func (in *input) compareFragments(s *scratch, f recording.Format, e *recording.Entry, data []byte) error {
	mfps, err := mfpsOf(f, data)
	if err != nil {
		return err
	}
	if missing := findMissing(mfps); missing != nil {
		return missing // the other fragments do not make a record
	}
	s.cursors, s.fragmentData = s.cursors[:0], s.fragmentData[:0]
	for i := range mfps {
		s.cursors, s.fragmentData = append(s.cursors, mfps[i].Cursor()), append(s.fragmentData, nil)
	}
	for i := range uint64(e.Events) {
		for k := range s.cursors {
			if !s.cursors[k].Next() {
				return fmt.Errorf("source %d has only %d events, and the MEP has %d", mfps[k].Source(), i, e.Events)
			}
			s.fragmentData[k] = s.cursors[k].Data()
		}
		if s.fragment, err = s.rebuilder.Append(s.fragment[:0], s.fragmentData); err == nil {
			err = in.compareRecord(s, e.FirstEvent+i, s.fragment)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
