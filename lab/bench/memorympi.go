package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// onesidedSource is a program whose output parseOneSided reads.
//
//go:embed mpi/onesided.c
var onesidedSource []byte

const (
	onesidedRanks  = 2
	figuresPerSize = 5 // measurements of each size
)

// oneSided measures OpenMPI's one-sided operations with the first of the settings that works.
func oneSided(settings ...[]string) func(context.Context, *MemoryConfig, []byte, *memoryReferenceRows) error {
	return func(ctx context.Context, c *MemoryConfig, _ []byte, into *memoryReferenceRows) error {
		if !c.MPI {
			return errors.New("it was not asked for")
		}
		m, err := newMPI(ctx, "onesided", onesidedSource)
		if err != nil {
			return err
		}
		defer m.close()
		args := []string{inSeconds(c.Duration), strconv.Itoa(c.Concurrency)}
		for _, size := range c.Sizes {
			args = append(args, strconv.Itoa(int(size)))
		}
		measures := time.Duration(len(c.Sizes)*figuresPerSize+1) * c.Duration
		out, err := m.startFirst(ctx, onesidedRanks, settings, measures, args...)
		if err == nil {
			into.AddTime, into.Rows, err = parseOneSided(out, len(c.Sizes))
		}
		return err
	}
}

// parseOneSided reads the program's output.
func parseOneSided(out []byte, sizes int) (add float64, rows []memoryRow, err error) {
	rows = []memoryRow{}
	for line := range bytes.Lines(out) {
		var m memoryRow
		text := string(line)
		if n, _ := fmt.Sscanf(text, "add %g", &add); n == 1 {
			continue
		}
		var put, get float64
		if n, _ := fmt.Sscanf(text, "size %d %g %g %g %g %g", &m.Size, &m.PutTime, &m.GetTime, &m.MessageTime, &put,
			&get); n != 6 {
			continue // a line of OpenMPI's own
		}
		m.PutGbps, m.GetGbps = put*8/1e9, get*8/1e9
		rows = append(rows, m)
	}
	if len(rows) != sizes || add <= 0 {
		return 0, rows[:0], fmt.Errorf("OpenMPI's program printed %q, and not %d sizes", strings.TrimSpace(string(out)),
			sizes)
	}
	return add, rows, nil
}
