package sampling

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt: times in ms; a sample's one value is the time at which it was read.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		var r *Ring
		return func(command string) string {
			words := strings.Fields(command)
			number := func(i int) int { return transcript.Number(t, words[i]) }
			switch words[0] {
			case "every":
				if err := CheckRequest(time.Duration(number(1))*time.Millisecond, number(3), 1); err != nil {
					return err.Error() + "\n"
				}
				r = New(time.Duration(number(1))*time.Millisecond, number(3), 1)
				return "first at once\n"
			case "at":
				now := int64(number(1)) * int64(time.Millisecond)
				row := r.BeginSample(now, now)
				if row == nil {
					return "nothing is due\n"
				}
				row[0] = uint64(number(1))
				return fmt.Sprintf("read; next at %d; enough %v\n", r.NextDue()/int64(time.Millisecond), r.Done())
			case "many": // many FROM TO: one each ms
				for i := number(1); i <= number(2); i++ {
					now := int64(i) * int64(time.Millisecond)
					r.BeginSample(now, now)[0] = uint64(i)
				}
				return "read\n"
			case "take":
				_, values := r.Drain(nil, nil, number(1))
				overwritten, late := r.Lost()
				if len(values) > 5 {
					return fmt.Sprintf("%d values from %d to %d, missed %d, late %d\n", len(values), values[0],
						values[len(values)-1], overwritten, late)
				}
				return fmt.Sprintf("%v, missed %d, late %d\n", values, overwritten, late)
			}
			t.Fatalf("%q is no command", command)
			return ""
		}
	})
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		interval         time.Duration
		samples, columns int
		field            string
	}{
		{time.Millisecond, 0, 1, ""}, {10 * time.Second, MaxSamples, maxColumns, ""},
		{time.Millisecond - 1, 1, 1, "interval_us"}, {10*time.Second + 1, 1, 1, "interval_us"},
		{time.Second, MaxSamples + 1, 1, "samples"}, {time.Second, -1, 1, "samples"},
		{time.Second, 1, 0, "counters"}, {time.Second, 1, maxColumns + 1, "counters"},
	} {
		err := CheckRequest(tt.interval, tt.samples, tt.columns)
		var wrong *Error
		if errors.As(err, &wrong) != (tt.field != "") || wrong != nil && wrong.Field != tt.field {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestEverySampleIsTakenOrMissed reads and takes at random times: what was read is taken once, in order, or counted as
// missed, and every interval has its sample or is counted as late.
func TestEverySampleIsTakenOrMissed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(int64(MinInterval), int64(time.Second)).Draw(t, "interval"))
		r := New(interval, rapid.IntRange(0, 40).Draw(t, "samples"), 2)
		now, first, read, seen, last := int64(1), int64(0), uint64(0), uint64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 5*int64(interval)).Draw(t, "pause")
			due := r.NextDue()
			row := r.BeginSample(now, now)
			if (row != nil) != (!(r.maxSamples > 0 && read >= r.maxSamples) && now >= due) {
				t.Fatalf("at %d of %d: %v", now, due, row)
			}
			if row != nil {
				if read++; first == 0 {
					first = now
				}
				row[0], row[1] = uint64(now), read
			}
			at, values := r.Drain(nil, nil, rapid.IntRange(0, 3).Draw(t, "take"))
			for i := range at {
				seen++
				if at[i] <= last || values[2*i] != uint64(at[i]) {
					t.Fatalf("%d after %d: %v", at[i], last, values)
				}
				last = at[i]
			}
		}
		_, rest := r.Drain(nil, nil, MaxSamples)
		overwritten, late := r.Lost()
		if seen+uint64(len(rest)/2)+overwritten != read {
			t.Fatalf("%d read, %d taken, %d missed", read, seen+uint64(len(rest)/2), overwritten)
		}
		if r.maxSamples == 0 && read > 0 && uint64((r.NextDue()-first)/int64(interval)) != read+late {
			t.Fatalf("next at %d, every %v: %d read, %d late", r.NextDue(), interval, read, late)
		}
	})
}

func TestDueAllocatesNothing(t *testing.T) {
	r, now := New(time.Millisecond, 0, 8), int64(1)
	if n := testing.AllocsPerRun(5000, func() {
		now += int64(time.Millisecond)
		r.BeginSample(now, now)[7] = 1
	}); n > 0 {
		t.Errorf("%v allocations for a sample", n)
	}
}
