package source

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/event"
)

// timedFile is a file of empty records that were taken at orbits and crossings.
func timedFile(t *testing.T, at ...[2]uint32) string {
	var file []byte
	for _, k := range at {
		r, err := event.AppendRecord(nil, event.MDFHeader{
			DataType: event.MDFTypeBanks,
			Orbit:    k[0],
			Bunch:    k[1],
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, r...)
	}
	return writeFile(t, file)
}

// TestAsTaken gives the events with the distances that their orbits have: 11245 of them are a second.
func TestAsTaken(t *testing.T) {
	const second = orbitsPerSecond
	path := timedFile(t, [2]uint32{1<<32 - second, 5}, [2]uint32{0, 5}, [2]uint32{1<<32 - 9, 0}, [2]uint32{2 * second, 5},
		[2]uint32{2 * second, 5 + 3563})
	want := []float64{0, 1, 1, 3, 3 + 3563./3564/second, 3 + 3563./3564/second, 4}
	synctest.Test(t, func(t *testing.T) {
		src, err := openRecorded(t.Context(), ReplayConfig{
			Path:           path,
			RUs:            1,
			Packing:        1,
			Loop:           true,
			PaceAsRecorded: true,
			Events:         7,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		begin := time.Now()
		var got []float64
		var b Block
		for dst := make([]byte, src.MaxBlock()); ; {
			if err := src.Next(t.Context(), dst, &b); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, time.Since(begin).Seconds())
			if len(got) == 2 {
				time.Sleep(1500 * time.Millisecond) // held up: what is due comes at once, and the next one in time
				want[2] = 2.5
			}
		}
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return a-b < 1e-4 && b-a < 1e-4 }) {
			t.Errorf("%v, want %v", got, want)
		}
		if s := src.Stats(); s.PaceLostEvents != 0 || s.Loops != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestNoTimes refuses files whose events say nothing of when they were taken.
func TestNoTimes(t *testing.T) {
	for name, path := range map[string]string{
		"one time":   timedFile(t, [2]uint32{}, [2]uint32{}),
		"an old one": writeFile(t, bytes.Repeat(oldRecord(), 3)),
		"MFPs":       writeFile(t, newMFP(0, 0, 2, 4)),
	} {
		var refused *ConfigError
		_, err := openRecorded(t.Context(), ReplayConfig{
			Path:           path,
			RUs:            1,
			Packing:        1,
			PaceAsRecorded: true,
		})
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "leave out as-taken") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// oldRecord is a record with a header of version 1, which has no sub-header.
func oldRecord() []byte {
	r := make([]byte, 20)
	writeSizes(r, 20)
	r[17], r[18] = 1<<4, event.MDFTypeBanks
	return r
}
