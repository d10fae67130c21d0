package mem

import (
	"context"
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
	"ringlet/node/certs"
	"ringlet/shmem"
)

// Owner is the configuration of Serve.
type Owner struct {
	Group   string // directory
	Name    string
	Size    int
	Pages   []Pages // none: all guests may do everything on all pages
	Carrier string
	Host    string // address that guests can reach
}

// Pages opens pages to all guests; as text, FIRST+COUNT:ALLOWED[:ATTRIBUTE,...].
type Pages struct{ memory.Pages }

var attributesByName = map[string]memory.Attributes{
	"nwrite":    0,
	"dmove":     memory.Dmove,
	"ordered":   memory.Ordered,
	"combining": memory.Combining,
}

var allowByLetter = map[rune]memory.Allow{
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
		bit, ok := allowByLetter[c]
		if !ok {
			return wrong("allowed are r (read), w (write), l (lock), n (notify)")
		}
		out.Allow |= bit
	}
	if len(parts) == 3 {
		for word := range strings.SplitSeq(parts[2], ",") {
			bit, ok := attributesByName[word]
			if !ok {
				return wrong("attributes are nwrite, dmove, ordered, combining")
			}
			out.Attributes |= bit
		}
	}
	p.Pages = out
	return nil
}

// Serve exports a segment until ctx is done, and with it the boards of this process's tables and counters.
func Serve(ctx context.Context, o Owner, to io.Writer) error {
	if o.Size < 1 || o.Size > 1<<40 {
		return fmt.Errorf("a segment has 1 byte to 1 TiB, and not %d bytes", o.Size)
	}
	if err := os.MkdirAll(o.Group, 0o700); err != nil {
		return err
	}
	held, err := lock(o.Group, ownerRank)
	if err == nil && held == nil {
		err = fmt.Errorf("another process exports memory in %s: give another directory as --group", o.Group)
	}
	if err != nil {
		return err
	}
	_, err = shmem.Sweep(segmentPrefix) // removes the segments of owners that were killed
	var id *certs.Identity
	if err == nil {
		id, err = makeCertificates(o.Group)
	}
	var segments ownerSegments
	if err == nil {
		segments, err = o.createSegments()
	}
	if err != nil {
		return errors.Join(err, held.Close())
	}
	g := &group{View: uint64(time.Now().UnixMilli()), Carrier: o.Carrier}
	p, err := openPlace(id, g, ownerRank, held, net.JoinHostPort(o.Host, "0"),
		useMemory(newArrivals(segments[2].Bytes()[boardTextSize:]).recordStage))
	if err != nil {
		return segments.closeAll(err)
	}
	err = o.serve(ctx, p, g, segments, to)
	if closed := p.close(); closed != nil { // a peer may still write to the memory: leave it mapped
		return errors.Join(err, closed)
	}
	return segments.closeAll(err)
}

// ownerSegments are the user's segment, and the boards of the tables and of the counters.
type ownerSegments [3]*shmem.Segment

// createSegments creates the segments of an owner.
func (o *Owner) createSegments() (all ownerSegments, err error) {
	for i, size := range [...]int{o.Size, boardSize, boardSize} {
		if all[i], err = shmem.Create(segmentName(ownerRank, fmt.Sprint("segment", i)), size); err != nil {
			return all, all.closeAll(err)
		}
	}
	return all, nil
}

// closeAll closes the segments that were created, and joins their errors to err.
func (all *ownerSegments) closeAll(err error) error {
	for _, s := range all {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// serve exports the segments, writes group.json, and updates the boards until ctx is done.
func (o *Owner) serve(ctx context.Context, p *place, g *group, segments ownerSegments, to io.Writer) (err error) {
	exports, err := o.exportSegments(p.space, segments)
	if err != nil {
		return err
	}
	defer func() { // before the links end, so that guests learn of it
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
	return keepBoards(ctx, p, segments[1].Bytes(), segments[2].Bytes())
}

func (o *Owner) exportSegments(s *memory.Space, segments ownerSegments) (exports []*memory.Export, err error) {
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
	board := []memory.Pages{{Count: boardSize / memory.PageSize, Peer: memory.Everybody, Allow: memory.AllowRead}}
	rules := [...][]memory.Pages{pages, board, board}
	for i, name := range [...]string{o.Name, tablesName, countersName} {
		x, err := s.Export(name, segments[i], rules[i]...)
		if err != nil {
			return nil, err
		}
		exports = append(exports, x)
	}
	return exports, nil
}
