package mem

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"ringlet/lab/stages"
	"ringlet/memory"
	"ringlet/node/certs"
	"ringlet/transport"
)

// Guest is this process as a guest of a group.
type Guest struct {
	place  *place
	dir    string
	tracer *stages.Tracer
	to     io.Writer
}

// linkTimeout bounds the time to connect to the owner.
const linkTimeout = 10 * time.Second

// Enter takes a free place in the group of a directory, and connects to its owner. The guest prints its operations to
// to.
func Enter(ctx context.Context, dir string, to io.Writer) (*Guest, error) {
	g := &Guest{dir: dir, tracer: stages.New(), to: to}
	p, err := claimPlace(dir, useMemory(g.tracer.Follow(false)))
	if err != nil {
		return nil, err
	}
	g.place = p
	return g, p.connectOwner(ctx, dir, p.space.Reconnect)
}

// claimPlace opens the place of the first guest's rank that is free on this host.
func claimPlace(dir string, use func(*place, transport.Config) error) (*place, error) {
	g, err := readGroup(dir)
	if err != nil {
		return nil, err
	}
	bind, err := sourceAddress(g.Address)
	if err != nil {
		return nil, err
	}
	for rank := 1; rank <= maxGuests; rank++ {
		held, err := lock(dir, rank)
		if err != nil {
			return nil, err
		}
		if held == nil {
			continue
		}
		id, err := certs.Load(dir, rankName(rank))
		if err != nil {
			return nil, errors.Join(err, held.Close())
		}
		return openPlace(id, g, rank, held, bind, use)
	}
	return nil, fmt.Errorf("all %d places for guests of %s are taken on this host: wait for one to end", maxGuests, dir)
}

// connectOwner connects to the owner, or closes the place.
func (p *place) connectOwner(ctx context.Context, dir string, link func(context.Context, []int) error) error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if err := link(ctx, []int{ownerRank}); err != nil {
		return errors.Join(fmt.Errorf("the owner of %s cannot be reached: %w: if it was started again, copy its "+
			"directory again", dir, err), p.close())
	}
	return nil
}

// sourceAddress is this host's address on the route to another one, with port 0. It is needed since the carrier quic-go
// sends no large datagrams from a socket that is bound to all addresses.
func sourceAddress(address string) (string, error) {
	c, err := net.Dial("udp", address) // sends nothing
	if err != nil {
		return "", err
	}
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	return net.JoinHostPort(host, "0"), errors.Join(err, c.Close())
}

// Close leaves the group.
func (g *Guest) Close() error { return g.place.close() }

// withImport imports a segment for one task.
func (g *Guest) withImport(ctx context.Context, segment string, task func(*memory.Import) error) error {
	im, err := g.place.space.Import(ctx, segment)
	if err != nil {
		return err
	}
	defer im.Close()
	return task(im)
}

// timed executes an operation, and prints how long it took.
func (g *Guest) timed(do func() error, what func() string) error {
	start := time.Now()
	err := do()
	if took := time.Since(start); err == nil {
		fmt.Fprintf(g.to, "%s: done in %v\n", what(), took.Round(time.Microsecond/10))
	}
	return err
}

// timedRange is timed for an operation on bytes of a segment.
func (g *Guest) timedRange(im *memory.Import, verb, segment string, off int64, count int, do func() error) error {
	return g.timed(do, func() string { return fmt.Sprintf("%s %s@%s [%d, +%d)", verb, segment, im.Node(), off, count) })
}

// store writes bytes and waits until they are in place: on combining pages, Write returns earlier.
func store(ctx context.Context, im *memory.Import, off int64, b []byte) error {
	if err := im.Write(ctx, off, b); err != nil {
		return err
	}
	return im.Fence(ctx)
}

// Put writes data, and with notify notifies the page of their first byte.
func (g *Guest) Put(ctx context.Context, segment string, off int64, data []byte, notify bool) error {
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		err := g.timedRange(im, "put", segment, off, len(data), func() error { return store(ctx, im, off, data) })
		if err != nil || !notify {
			return err
		}
		var n uint64
		return g.timed(func() (err error) { n, err = im.Notify(ctx, off); return err }, func() string {
			return fmt.Sprintf("notify %s@%s page %d: notice %d", segment, im.Node(), off/memory.PageSize, n)
		})
	})
}

// maxTransfer is the most bytes of one Get, Fill or Compare.
const maxTransfer = 1 << 30

func checkCount(count int64) error {
	if count < 1 || count > maxTransfer {
		return fmt.Errorf("%d bytes are not possible: give 1 to %d", count, maxTransfer)
	}
	return nil
}

// Get reads bytes, and prints them as a dump; with raw it prints the bytes themselves.
func (g *Guest) Get(ctx context.Context, segment string, off, count int64, raw bool) error {
	if err := checkCount(count); err != nil {
		return err
	}
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		b := make([]byte, count)
		read := func() error { return im.Read(ctx, off, b) }
		if raw {
			err := read()
			if err == nil {
				_, err = g.to.Write(b)
			}
			return err
		}
		err := g.timedRange(im, "get", segment, off, len(b), read)
		if err == nil {
			_, err = fmt.Fprint(g.to, dump(off, b))
		}
		return err
	})
}

// dump is a hexadecimal dump of bytes, with their offsets in the segment.
func dump(off int64, b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		line := b[:min(16, len(b))]
		text := strings.TrimRight(hex.Dump(line), "\n")
		fmt.Fprintf(&out, "%08x%s\n", off, text[8:])
		b, off = b[len(line):], off+int64(len(line))
	}
	return out.String()
}

// repeatData repeats data up to count bytes.
func repeatData(data []byte, count int64) ([]byte, error) {
	if err := checkCount(count); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errors.New("the pattern to fill with is empty: give at least 1 byte")
	}
	return bytes.Repeat(data, int(count)/len(data)+1)[:count], nil
}

// Fill writes data repeatedly, count bytes in all.
func (g *Guest) Fill(ctx context.Context, segment string, off, count int64, data []byte) error {
	b, err := repeatData(data, count)
	if err != nil {
		return err
	}
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		return g.timedRange(im, "fill", segment, off, len(b), func() error { return store(ctx, im, off, b) })
	})
}

// errDiffers is wrapped by the error of Compare for bytes that differ.
var errDiffers = errors.New("the bytes differ")

// Compare reads bytes and compares them with those that Fill would write.
func (g *Guest) Compare(ctx context.Context, segment string, off, count int64, data []byte) error {
	want, err := repeatData(data, count)
	if err != nil {
		return err
	}
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		got := make([]byte, count)
		read := func() error { return im.Read(ctx, off, got) }
		if err := g.timedRange(im, "compare", segment, off, len(got), read); err != nil {
			return err
		}
		wrong, first := 0, 0
		for i := range got {
			if got[i] != want[i] {
				if wrong == 0 {
					first = i
				}
				wrong++
			}
		}
		if wrong > 0 {
			return fmt.Errorf("%w: %d of %d, the first at offset %d, where %#02x is and %#02x was expected", errDiffers, wrong,
				count, off+int64(first), got[first], want[first])
		}
		fmt.Fprintf(g.to, "all %d bytes are as expected\n", count)
		return nil
	})
}

// Add adds to a word atomically.
func (g *Guest) Add(ctx context.Context, segment string, off int64, delta uint64) error {
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		var before uint64
		return g.timed(func() (err error) { before, err = im.Add(ctx, off, delta); return err }, func() string {
			return fmt.Sprintf("add %s@%s [%d]: %d + %d = %d", segment, im.Node(), off, before, delta, before+delta)
		})
	})
}

// Watch prints the word at an offset at each notice of its page, until ctx is done or that many notices have come; 0:
// no limit.
func (g *Guest) Watch(ctx context.Context, segment string, off int64, notices int) error {
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		var known uint64
		for seen := 0; notices == 0 || seen < notices; seen++ {
			n, err := im.Wait(ctx, off, known)
			if err != nil {
				return err
			}
			known = n
			word, err := readWord(ctx, im, off)
			if err != nil {
				return err
			}
			fmt.Fprintf(g.to, "watch %s@%s [%d]: notice %d, the word is %d (%#x)\n", segment, im.Node(), off, n, word, word)
		}
		return nil
	})
}

// Tables prints the tables of the owner, which it exports as text, and those of this guest.
func (g *Guest) Tables(ctx context.Context, segment string) error {
	return g.withImport(ctx, segment, func(*memory.Import) error { // so that both tables have an entry
		return g.withImport(ctx, tablesName, func(board *memory.Import) error {
			time.Sleep(2 * boardInterval) // until the owner has written the tables with this guest
			text, _, err := readBoard(ctx, board)
			if err != nil {
				return err
			}
			fmt.Fprintf(g.to, "Tables of %s:\n%s\nTables of %s:\n", board.Node(), text, rankName(g.place.rank))
			return g.place.space.Tables().Print(g.to)
		})
	})
}
