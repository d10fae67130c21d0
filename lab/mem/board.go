package mem

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ringlet/internal/counter"
	"ringlet/memory"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// A board is a segment with a text of the owner: its tables, or its counters. The first word is a version, which is odd
// while the owner changes the text; the second is the length of the text. If a reader finds the same even version
// before and after, it has read one text (a seqlock). The last page of the counters' board has the times of arrivals.
const (
	tablesName    = "tables"
	countersName  = "counters"
	boardSize     = 64 << 10
	boardTextSize = boardSize - memory.PageSize // head and text
	boardHeadSize = 16
	boardInterval = 100 * time.Millisecond
)

const truncatedMark = "... and more than this board holds\n"

// board is a board of the owner, with the text written last.
type board struct {
	mem  []byte
	last string
}

// keepBoards writes the texts to the boards when they have changed, until ctx is done.
func keepBoards(ctx context.Context, p *place, tables, counters []byte) error {
	ticker := time.NewTicker(boardInterval)
	defer ticker.Stop()
	t, c := board{mem: tables}, board{mem: counters}
	for {
		var b strings.Builder
		if err := p.space.Tables().Print(&b); err != nil {
			return err
		}
		t.write(b.String())
		c.write(formatCounters(p))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *board) write(text string) {
	if text == b.last {
		return
	}
	b.last = text
	if most := boardTextSize - boardHeadSize; len(text) > most {
		text = text[:strings.LastIndexByte(text[:most-len(truncatedMark)], '\n')+1] + truncatedMark
	}
	version := shmem.Word(b.mem)
	version.Add(1)
	shmem.Word(b.mem[8:]).Store(uint64(len(text)))
	copy(b.mem[boardHeadSize:], text)
	version.Add(1)
}

// readBoard reads the text of a board, and how often the owner has written it.
func readBoard(ctx context.Context, im *memory.Import) (text string, times uint64, err error) {
	head, body := make([]byte, boardHeadSize), make([]byte, boardTextSize-boardHeadSize)
	for range 100 {
		if err := im.Read(ctx, 0, head[:8]); err != nil {
			return "", 0, err
		}
		before := binary.LittleEndian.Uint64(head)
		if err := im.Read(ctx, 8, head[8:]); err != nil {
			return "", 0, err
		}
		n := binary.LittleEndian.Uint64(head[8:])
		if n > uint64(len(body)) {
			return "", 0, fmt.Errorf("the board of %s claims a text of %d bytes, more than it can hold", im.Node(), n)
		}
		if err := im.Read(ctx, boardHeadSize, body[:n]); err != nil {
			return "", 0, err
		}
		if err := im.Read(ctx, 0, head[:8]); err != nil {
			return "", 0, err
		}
		if before%2 == 0 && before == binary.LittleEndian.Uint64(head) {
			return string(body[:n]), before / 2, nil
		}
	}
	return "", 0, fmt.Errorf("the board of %s changed at each of 100 looks: ask again", im.Node())
}

// counterSources are the counters of an owner: of its transactions, of its links, and of its socket.
var counterSources = []struct {
	prefix string
	counter.Struct
}{
	{"memory.", counter.StructOf(memory.Stats{})},
	{"link.", counter.StructOf(transport.Stats{})},
	{"socket.", counter.StructOf(quic.Stats{})},
}

// formatCounters formats the counters of an owner, a line for each.
func formatCounters(p *place) string {
	m, l, s := p.space.Stats(), p.space.LinkStats(), p.net.Stats()
	var out strings.Builder
	for i, from := range []any{&m, &l, &s} {
		all := map[string]uint64{}
		counterSources[i].Read(all, from)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&out, "%s%s %d\n", counterSources[i].prefix, name, all[name])
		}
	}
	return out.String()
}

// parseCounters is the inverse of formatCounters.
func parseCounters(text string) (map[string]uint64, error) {
	all := map[string]uint64{}
	for line := range strings.Lines(text) {
		var name string
		var n uint64
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			return nil, fmt.Errorf("the owner's counters have the line %q, not a name and a number: %w", line, err)
		}
		all[name] = n
	}
	return all, nil
}

// helpOf is the description of a counter; "" if it is unknown.
func helpOf(name string) string {
	for _, s := range counterSources {
		if bare, ok := strings.CutPrefix(name, s.prefix); ok {
			if c, ok := s.List().Find(bare); ok {
				return c.Help
			}
		}
	}
	return ""
}
