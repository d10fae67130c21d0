package engine

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt.
//
//	engine D PER   D descriptors, and so many transfers a trigger; PER may be endless
//	trigger N      N triggers come
//	ended N        N times, the transfer under way ends
//	clear          what is under way is the last transfer
//	counts         what the engine has counted
func TestTranscripts(t *testing.T) {
	outputs := [...]string{Idle: "idle", Start: "start", Continues: "goes on", Refused: "refused"}
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		var c *Core
		step := func(in Input, times string) string {
			var b strings.Builder
			n := 1
			if times != "" {
				n = transcript.Number(t, times)
			}
			for range n {
				out := c.Step(in)
				if b.WriteString(outputs[out]); out == Start {
					fmt.Fprintf(&b, " %d", c.descriptor)
				}
				b.WriteString("\n")
			}
			return b.String()
		}
		return func(command string) string {
			word, rest, _ := strings.Cut(command, " ")
			switch word {
			case "engine":
				d, per, _ := strings.Cut(rest, " ")
				transfers := Endless
				if per != "endless" {
					transfers = uint64(transcript.Number(t, per))
				}
				c = New(transcript.Number(t, d), transfers)
				return ""
			case "trigger":
				return step(Triggered, rest)
			case "ended":
				return step(Ended, rest)
			case "clear":
				return step(Cleared, "")
			case "counts":
				triggers, refused, transfers := c.Counts()
				return fmt.Sprintf("%d triggers, %d refused, %d transfers\n", triggers, refused, transfers)
			}
			t.Fatalf("nobody understands %q", command)
			return ""
		}
	})
}

// TestEachTriggerHasItsTransfers: whatever comes in which order, the transfers are n for each trigger that was taken,
// descriptors come in turn, and one trigger at most is kept.
func TestEachTriggerHasItsTransfers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		descriptors, per := rapid.IntRange(1, 64).Draw(t, "descriptors"), rapid.Uint64Range(1, 9).Draw(t, "per")
		c, started, running := New(descriptors, per), uint64(0), false
		for _, in := range rapid.SliceOfN(rapid.SampledFrom([]Input{Triggered, Ended}), 0, 200).Draw(t, "inputs") {
			took, was := c.Accepts(), running
			switch out := c.Step(in); out {
			case Start:
				if c.descriptor != int(started)%descriptors {
					t.Fatalf("transfer %d takes descriptor %d of %d", started, c.descriptor, descriptors)
				}
				started++
				running = true
			case Idle:
				running = false
			case Refused:
				if took || !was {
					t.Fatal("a trigger was refused though there was room")
				}
			case Continues:
				if !was || in == Ended {
					t.Fatal("nothing was under way that could go on")
				}
			}
		}
		for running {
			running = c.Step(Ended) == Start
		}
		triggers, _, transfers := c.Counts()
		if transfers != triggers*per {
			t.Fatalf("%d triggers of %d transfers each gave %d", triggers, per, transfers)
		}
	})
}

// TestAllocatesNothing: it is asked for each transfer.
func TestAllocatesNothing(t *testing.T) {
	c := New(64, 2)
	if n := testing.AllocsPerRun(100, func() {
		c.Step(Triggered)
		c.Step(Ended)
		c.Step(Ended)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
