package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ringlet/memory"
	"ringlet/shmem"
)

// Owner says what Serve exports.
type Owner struct {
	Group   string // directory
	Name    string
	Size    int
	Pages   []Pages // none: all of it is open to everybody, for everything
	Carrier string
	Host    string // address that guests reach
}

// Pages opens pages to everybody; as text, FIRST+COUNT:ALLOWED[:ATTRIBUTE,...].
type Pages struct{ memory.Pages }

var attributes = map[string]memory.Attributes{
	"nwrite":    0,
	"dmove":     memory.Dmove,
	"ordered":   memory.Ordered,
	"combining": memory.Combining,
}

var allowed = map[rune]memory.Allow{
	'r': memory.AllowRead,
	'w': memory.AllowWrite,
	'l': memory.AllowLock,
	'n': memory.AllowNotify,
}

// UnmarshalText reads a rule.
func (p *Pages) UnmarshalText(text []byte) error {
	wrong := func(what string) error {
		return fmt.Errorf("pages %q: %s; they are given as FIRST+COUNT:ALLOWED[:ATTRIBUTE,...], such as 0+16:rwln or "+
			"16+4:rw:ordered,combining", text, what)
	}
	parts := strings.Split(string(text), ":")
	if len(parts) < 2 || len(parts) > 3 {
		return wrong("there are two or three parts")
	}
	first, count, _ := strings.Cut(parts[0], "+")
	out := memory.Pages{Peer: memory.Everybody}
	var err error
	if out.First, err = strconv.Atoi(first); err != nil || out.First < 0 {
		return wrong("the first page is a number")
	}
	if out.Count, err = strconv.Atoi(count); err != nil || out.Count < 1 {
		return wrong("how many pages is a number above 0")
	}
	for _, c := range parts[1] {
		bit, ok := allowed[c]
		if !ok {
			return wrong("allowed are r (read), w (write), l (lock), n (notify)")
		}
		out.Allow |= bit
	}
	if len(parts) == 3 {
		for word := range strings.SplitSeq(parts[2], ",") {
			bit, ok := attributes[word]
			if !ok {
				return wrong("attributes are nwrite, dmove, ordered, combining")
			}
			out.Attributes |= bit
		}
	}
	p.Pages = out
	return nil
}

// Serve exports a segment until ctx is over, and beside it the tables of this process, for Guest.Tables.
func Serve(ctx context.Context, o Owner, to io.Writer) (err error) {
	if o.Size < 1 || o.Size > 1<<40 {
		return fmt.Errorf("a segment has 1 byte to 1 TiB, and not %d bytes", o.Size)
	}
	if err := certify(o.Group); err != nil {
		return err
	}
	held, err := lock(o.Group, ownerRank)
	if err == nil && held == nil {
		err = fmt.Errorf("another process exports memory in %s: give another directory as --group", o.Group)
	}
	if err != nil {
		return err
	}
	if _, err := shmem.Sweep(segmentPrefix); err != nil { // of owners that were killed
		return errors.Join(err, held.Close())
	}
	g := &group{View: uint64(time.Now().UnixMilli()), Carrier: o.Carrier}
	p, err := open(o.Group, g, ownerRank, held, net.JoinHostPort(o.Host, "0"))
	if err != nil {
		return err
	}
	segment, err := shmem.Create(segmentName(ownerRank, "segment"), o.Size)
	if err != nil {
		return errors.Join(err, p.close())
	}
	board, err := shmem.Create(segmentName(ownerRank, "board"), boardSize)
	if err != nil {
		return errors.Join(err, segment.Close(), p.close())
	}
	defer func() { // memory that a peer may still be inside of stays mapped until the process ends
		if closed := p.close(); closed != nil {
			err = errors.Join(err, closed)
			return
		}
		err = errors.Join(err, segment.Close(), board.Close())
	}()
	exports, err := o.export(p.space, segment, board)
	if err != nil {
		return err
	}
	defer func() { // before the links end, so that guests are told
		for _, x := range exports {
			err = errors.Join(err, x.Close())
		}
	}()
	if err := p.space.Connect(ctx, nil); err != nil {
		return err
	}
	if err := g.write(o.Group); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(filepath.Join(o.Group, groupFile))) }()
	fmt.Fprintf(to, "%q is exported: %d bytes, by %s at %s, for guests with a copy of %s\n", o.Name, o.Size, o.Carrier,
		g.Address, o.Group)
	return keepBoard(ctx, p.space, board.Bytes())
}

func (o *Owner) export(s *memory.Space, segment, board *shmem.Segment) ([]*memory.Export, error) {
	pages := []memory.Pages{{
		Count: (o.Size + memory.PageSize - 1) / memory.PageSize,
		Peer:  memory.Everybody,
		Allow: memory.AllowAll,
	}}
	if len(o.Pages) > 0 {
		pages = pages[:0]
	}
	for _, p := range o.Pages {
		pages = append(pages, p.Pages)
	}
	x, err := s.Export(o.Name, segment, pages...)
	if err != nil {
		return nil, err
	}
	y, err := s.Export(boardName, board, memory.Pages{
		Count: boardSize / memory.PageSize,
		Peer:  memory.Everybody,
		Allow: memory.AllowRead,
	})
	return []*memory.Export{x, y}, err
}

// The board is a segment with the owner's tables as text. Its first word is a number that is odd while the text is
// being changed, its second the length of the text. So a reader knows whether it has read one text.
const (
	boardName  = "tables"
	boardSize  = 64 << 10
	boardHead  = 16
	boardEvery = 100 * time.Millisecond
)

// keepBoard writes the tables when they have changed, until ctx is over.
func keepBoard(ctx context.Context, s *memory.Space, board []byte) error {
	ticker := time.NewTicker(boardEvery)
	defer ticker.Stop()
	for last := ""; ; {
		var b strings.Builder
		if err := s.Tables().Print(&b); err != nil {
			return err
		}
		if text := b.String(); text != last {
			last = text
			if len(text) > boardSize-boardHead {
				text = text[:strings.LastIndexByte(text[:boardSize-boardHead-len(boardMore)], '\n')+1] + boardMore
			}
			version := shmem.Word(board)
			version.Add(1)
			shmem.Word(board[8:]).Store(uint64(len(text)))
			copy(board[boardHead:], text)
			version.Add(1)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

const boardMore = "... and more than this page of 64 KiB holds\n"

// readBoard reads one text.
func readBoard(ctx context.Context, im *memory.Import) (string, error) {
	head, body := make([]byte, boardHead), make([]byte, boardSize-boardHead)
	for range 100 {
		if err := im.Read(ctx, 0, head[:8]); err != nil {
			return "", err
		}
		before := binary.LittleEndian.Uint64(head)
		if err := im.Read(ctx, 8, head[8:]); err != nil {
			return "", err
		}
		n := binary.LittleEndian.Uint64(head[8:])
		if n > uint64(len(body)) {
			return "", fmt.Errorf("the tables of %s are %d bytes long, more than there are", im.Node(), n)
		}
		if err := im.Read(ctx, boardHead, body[:n]); err != nil {
			return "", err
		}
		if err := im.Read(ctx, 0, head[:8]); err != nil {
			return "", err
		}
		if before%2 == 0 && before == binary.LittleEndian.Uint64(head) {
			return string(body[:n]), nil
		}
	}
	return "", fmt.Errorf("the tables of %s changed at each of 100 looks: ask again", im.Node())
}
