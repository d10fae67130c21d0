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

// onesidedSource prints what parseOneSided reads.
//
//go:embed mpi/onesided.c
var onesidedSource []byte

const (
	onesidedRanks = 2
	// oneSidedTimeout is how long the program may take beyond its measurements: it starts, and on a busy machine both
	// ranks wait for processors that others have.
	oneSidedTimeout = 30 * time.Second
	// figuresPerSize are the measurements of each size.
	figuresPerSize = 5
)

// oneSided is OpenMPI's one-sided operations with the settings given, the first set that works.
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
		most := oneSidedTimeout + 2*time.Duration(len(c.Sizes)*figuresPerSize+1)*c.Duration
		for _, set := range settings {
			var out []byte
			within, end := context.WithTimeoutCause(ctx, most, fmt.Errorf("OpenMPI has not ended after %v", most))
			out, err = m.start(within, onesidedRanks, set, args...)
			if err != nil && within.Err() != nil {
				err = context.Cause(within)
			}
			end()
			if err == nil {
				into.AddTime, into.Rows, err = parseOneSided(out, len(c.Sizes))
				return err
			}
			if ctx.Err() != nil {
				break
			}
		}
		return err
	}
}

// parseOneSided reads what the program prints.
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
			continue // a remark of OpenMPI's
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
