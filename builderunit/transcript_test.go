package builderunit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/internal/placing"
	"ringlet/shmem"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata with what the core says now")

// TestTranscripts plays every conversation in testdata: a line that begins with "> " is said to the assembler, the lines below
// it are its answer, lines that begin with "#" are for the reader.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in testdata (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&transcript{}).play(string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("the assembler says something else (-written +said):\n%s", diff)
			}
		})
	}
}

type transcript struct {
	asm *Assembler
	rus int
}

func (p *transcript) play(script string) string {
	var out strings.Builder
	for line := range strings.Lines(script) {
		switch {
		case strings.HasPrefix(line, "> "):
			out.WriteString(line)
			out.WriteString(p.say(strings.Fields(line[2:])))
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			out.WriteString(line)
		}
	}
	return out.String()
}

// after is the number that follows a word, or def.
func after(w []string, word string, def int) int {
	for i := range w[:len(w)-1] {
		if w[i] == word {
			return number(w[i+1])
		}
	}
	return def
}

func number(s string) int {
	n, err := strconv.ParseInt(strings.Trim(s, "ru:,"), 10, 64)
	if err != nil {
		panic("transcript: " + err.Error())
	}
	return int(n)
}

func (p *transcript) say(w []string) string {
	slot := 0
	if len(w) > 1 {
		slot = after(w, "slot", 0)
	}
	switch {
	case w[0] == "assembler": // assembler of 2 slots of 4096 bytes for 3 RUs
		p.rus = number(w[8])
		p.asm = NewAssembler(p.rus, number(w[2]), number(w[5]))
	case strings.HasPrefix(w[0], "ru") && w[1] == "announces":
		return p.announce(number(w[0]), slot, w)
	case strings.HasPrefix(w[0], "ru"): // ru0 wrote 100 bytes to slot 0
		ref := shmem.Ref{Window: uint32(number(w[0])), Gen: uint32(after(w, "generation", 1))}
		if p.asm.Placed(slot, number(w[0]), ref, uint32(number(w[2]))) {
			return fmt.Sprintf("slot %d is whole\n", slot)
		}
	case w[0] == "finish":
		p.asm.Finish(slot)
	case w[0] == "abandon":
		p.asm.Abandon(slot)
	case w[0] == "show":
		return p.show()
	case w[0] == "places":
		return p.places(slot)
	default:
		return "not understood\n"
	}
	return ""
}

// announce reads "ru1 announces MEP 4 slot 0: 100 200", with "attempt", "from" (first stream) and "of" (streams) where they
// are not the obvious.
func (p *transcript) announce(ru, slot int, w []string) string {
	m := placing.Announce{
		RU: uint16(ru), Slot: uint32(slot), MEP: uint64(after(w, "MEP", 0)), Attempt: uint32(after(w, "attempt", 1)),
		First: uint16(after(w, "from", 0)),
	}
	colon := len(w)
	for i := range w {
		if strings.HasSuffix(w[i], ":") {
			colon = i + 1
		}
	}
	for _, s := range w[colon:] {
		m.Entries = append(m.Entries, placing.Entry{Size: uint32(number(s))})
	}
	m.Streams = uint16(after(w[:colon], "of", len(m.Entries)))
	ready, err := p.asm.Announce(&m)
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	if !ready {
		return ""
	}
	var out strings.Builder
	for ru := range p.rus {
		off, size := p.asm.Part(slot, ru)
		p.asm.Granted(slot, ru, shmem.Ref{Window: uint32(ru), Gen: 1})
		fmt.Fprintf(&out, "ru%d may write [%d, %d)\n", ru, off, off+size)
	}
	fmt.Fprintf(&out, "the MEP has %d bytes\n", p.asm.Slot(slot).Size)
	return out.String()
}

func (p *transcript) places(slot int) string {
	var out strings.Builder
	for _, x := range p.asm.Places(slot, nil) {
		fmt.Fprintf(&out, "source %d: [%d, %d)\n", x.Source, x.Offset, x.Offset+x.Size)
	}
	return out.String()
}

func (p *transcript) show() string {
	s := p.asm.Stats()
	return fmt.Sprintf("%d announcements, %d refused; %d grants, %d strays; %d MEPs of %d MFPs and %d bytes, %d incomplete; unfinished %v\n",
		s.Announced, s.Refused, s.Granted, s.Strays, s.MEPs, s.MFPs, s.Bytes, s.Incomplete, p.asm.Unfinished(nil))
}
