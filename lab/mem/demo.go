package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ringlet/lab/tool"
	"ringlet/memory"
)

// Demo is the configuration of a demonstration.
type Demo struct {
	Group     string // directory; "": a temporary one
	Carrier   string
	Host      string
	Program   string // path of ringlet, which the owner's process executes
	KeepOwner bool   // keep the owner until ctx is done
}

// The segment of a demo, in pages: open pages; pages that combine small writes; pages whose writes are not answered;
// read-only pages; and the last page, which is closed.
const (
	demoName      = "demo"
	demoPages     = 512
	demoCombining = 256
	demoDmove     = 384
	demoReadOnly  = 448
	demoClosed    = 511
)

func demoRules() []string {
	return []string{
		fmt.Sprintf("0+%d:rwln", demoCombining),
		fmt.Sprintf("%d+%d:rwln:combining", demoCombining, demoDmove-demoCombining),
		fmt.Sprintf("%d+%d:rwln:dmove,ordered", demoDmove, demoReadOnly-demoDmove),
		fmt.Sprintf("%d+%d:r", demoReadOnly, demoClosed-demoReadOnly),
	}
}

// Run starts an owner in a process of its own and two guests in this one, and shows each operation.
func (d Demo) Run(ctx context.Context, to io.Writer) (err error) {
	dir := d.Group
	if dir == "" {
		if dir, err = os.MkdirTemp("", "ringlet-mem-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err := os.Remove(filepath.Join(dir, groupFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{"mem", "export", demoName, "--group", dir, "--size", fmt.Sprint(demoPages * memory.PageSize),
		"--carrier", d.Carrier, "--host", d.Host}
	for _, rule := range demoRules() {
		args = append(args, "--pages", rule)
	}
	owning, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := tool.Command{Program: d.Program, Args: args}.Run(owning)
		ended <- err
	}()
	defer func() {
		stop()
		if end := <-ended; end != nil && owning.Err() == nil {
			err = errors.Join(err, end)
		}
	}()
	if err := awaitGroup(ctx, dir, ended); err != nil {
		return err
	}
	var pair [2]*Guest
	for i := range pair {
		if pair[i], err = Enter(ctx, dir, to); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pair[i].Close()) }()
	}
	fmt.Fprintf(to, "The owner exports the segment %q of %d pages to guests, over %s. guest1 and guest2 are in another "+
		"process.\n", demoName, demoPages, d.Carrier)
	if err := runSteps(ctx, to, pair); err != nil {
		return err
	}
	if d.KeepOwner {
		fmt.Fprintf(to, "\nThe owner stays until you press Ctrl-C. In another terminal:\n"+
			"  ringlet mem put demo 0 hello --group %[1]s\n  ringlet mem get demo 0 16 --group %[1]s\n"+
			"  ringlet mem tables demo --group %[1]s\n", dir)
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- nil
			return err
		}
	}
	return showEnd(ctx, to, pair[0], stop)
}

// awaitGroup waits until the owner has written group.json.
func awaitGroup(ctx context.Context, dir string, ended chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, linkTimeout, errors.New("the owner did not begin in time"))
	defer cancel()
	for {
		if _, err := readGroup(dir); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			ended <- nil
			return fmt.Errorf("the owner has ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// step is one operation that the demo shows.
type step struct {
	title string
	do    func(ctx context.Context, to io.Writer, pair [2]*Guest) error
}

var steps = []step{
	{"put and get: bytes travel to and from the memory of another process", showPut},
	{"fill and compare: 1 MiB", showFill},
	{"protection: what the owner does not open is refused", showRefusals},
	{"add: two guests count with one word", showCounter},
	{"lock: two guests change two words that belong together", showLock},
	{"watch: a guest sleeps until the other one notifies it", showWatch},
	{"combining: small writes travel together", showCombining},
	{"tables: exported page → protection, imported page → node, window, attributes", showTables},
}

func runSteps(ctx context.Context, to io.Writer, pair [2]*Guest) error {
	for i, s := range steps {
		fmt.Fprintf(to, "\n%d. %s\n", i+1, s.title)
		if err := s.do(ctx, to, pair); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	return nil
}

func showPut(ctx context.Context, _ io.Writer, p [2]*Guest) error {
	return errors.Join(p[0].Put(ctx, demoName, 4096, []byte("remote memory for all"), false),
		p[1].Get(ctx, demoName, 4096, 32, false))
}

func showFill(ctx context.Context, _ io.Writer, p [2]*Guest) error {
	data := []byte{0xA5, 0x5A}
	return errors.Join(p[0].Fill(ctx, demoName, 0, 1<<20, data), p[1].Compare(ctx, demoName, 0, 1<<20, data))
}

func showTables(ctx context.Context, _ io.Writer, p [2]*Guest) error {
	return p[0].Tables(ctx, demoName)
}

func showRefusals(ctx context.Context, to io.Writer, p [2]*Guest) error {
	for _, page := range []int64{demoReadOnly, demoClosed, demoPages} {
		err := p[0].Put(ctx, demoName, page*memory.PageSize, []byte("x"), false)
		var refused *memory.Error
		if !errors.As(err, &refused) || refused.Outcome != memory.Refused {
			return fmt.Errorf("page %d: a write should have been refused: %w", page, err)
		}
		fmt.Fprintln(to, refused)
	}
	return nil
}

// runBoth runs a task as both guests at the same time.
func runBoth(ctx context.Context, p [2]*Guest, task func(*Guest, *memory.Import) error) error {
	var errs [2]error
	var wg sync.WaitGroup
	for i, g := range p {
		wg.Go(func() {
			errs[i] = g.withImport(ctx, demoName, func(im *memory.Import) error { return task(g, im) })
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func showCounter(ctx context.Context, to io.Writer, p [2]*Guest) error {
	const each = 1000
	if err := p[0].Fill(ctx, demoName, 0, memory.PageSize, []byte{0}); err != nil {
		return err
	}
	start := time.Now()
	err := runBoth(ctx, p, func(_ *Guest, im *memory.Import) error {
		for range each {
			if _, err := im.Add(ctx, 0, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "%d adds of two guests took %v\n", 2*each, time.Since(start).Round(time.Microsecond))
	return p[1].Add(ctx, demoName, 0, 0)
}

// showLock lets each guest read two words, add one to each, and write them back. Without the lock, counts would be
// lost.
func showLock(ctx context.Context, to io.Writer, p [2]*Guest) error {
	const each, lockAt, wordsAt = 100, 8, 4096
	if err := p[0].Fill(ctx, demoName, wordsAt, 16, []byte{0}); err != nil {
		return err
	}
	start := time.Now()
	var mu sync.Mutex
	waits := 0
	err := runBoth(ctx, p, func(g *Guest, im *memory.Import) error {
		for range each {
			ticket := g.ticket()
			waited, err := acquire(ctx, im, lockAt, ticket)
			if err != nil {
				return err
			}
			mu.Lock()
			waits += waited
			mu.Unlock()
			var words [16]byte
			if err := im.Read(ctx, wordsAt, words[:]); err != nil {
				return err
			}
			for i := 0; i < len(words); i += 8 {
				binary.LittleEndian.PutUint64(words[i:], binary.LittleEndian.Uint64(words[i:])+1)
			}
			if err := im.Write(ctx, wordsAt, words[:]); err != nil {
				return err
			}
			if err := release(ctx, im, lockAt, ticket); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "%d turns with the lock took %v; the guests waited %d times\n", 2*each,
		time.Since(start).Round(time.Microsecond), waits)
	return p[1].Get(ctx, demoName, wordsAt, 16, false)
}

func showWatch(ctx context.Context, to io.Writer, p [2]*Guest) error {
	const at = 8 * memory.PageSize
	return p[0].withImport(ctx, demoName, func(im *memory.Import) error {
		woken := make(chan error, 1)
		known, err := im.Notify(ctx, at) // the number of notices so far
		if err != nil {
			return err
		}
		var when time.Time
		go func() {
			_, err := im.Wait(ctx, at, known)
			when = time.Now()
			woken <- err
		}()
		time.Sleep(10 * time.Millisecond) // until the goroutine sleeps in Wait
		start := time.Now()
		err = p[1].Put(ctx, demoName, at, []byte("wake up!"), true)
		if err = errors.Join(err, <-woken); err == nil {
			fmt.Fprintf(to, "%s was woken %v after %s began\n", rankName(p[0].place.rank),
				when.Sub(start).Round(time.Microsecond), rankName(p[1].place.rank))
		}
		return err
	})
}

func showCombining(ctx context.Context, to io.Writer, p [2]*Guest) error {
	const writes, size = 4096, 16
	data := make([]byte, size)
	for _, variant := range []struct {
		page int64
		verb string
		put  func(im *memory.Import, off int64) error
	}{
		{0, "writes", func(im *memory.Import, off int64) error { return im.Write(ctx, off, data) }},
		{demoCombining, "writes", func(im *memory.Import, off int64) error { return im.Write(ctx, off, data) }},
		{0, "posts", func(im *memory.Import, off int64) error { return post(ctx, im, off, data) }},
	} {
		err := p[0].withImport(ctx, demoName, func(im *memory.Import) error {
			before, start := p[0].place.space.Stats().WritesCombined, time.Now()
			for i := range int64(writes) {
				if err := variant.put(im, variant.page*memory.PageSize+i*size); err != nil {
					return err
				}
			}
			if err := im.Fence(ctx); err != nil {
				return err
			}
			fmt.Fprintf(to, "%d %s of %d bytes from page %d took %v; %d joined another one\n", writes, variant.verb, size,
				variant.page, time.Since(start).Round(time.Microsecond), p[0].place.space.Stats().WritesCombined-before)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// post posts a write; if the queue is full, it waits for the writes before.
func post(ctx context.Context, im *memory.Import, off int64, data []byte) error {
	err := im.Post(off, data)
	if !errors.Is(err, memory.ErrFull) {
		return err
	}
	if err := im.Fence(ctx); err != nil {
		return err
	}
	return im.Post(off, data)
}

// showEnd ends the owner while a guest waits for a notice, and says what the guest learns.
func showEnd(ctx context.Context, to io.Writer, g *Guest, stop func()) error {
	fmt.Fprintf(to, "\n%d. the end: the owner stops while %s waits for a notice\n", len(steps)+1, rankName(g.place.rank))
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	return g.withImport(ctx, demoName, func(im *memory.Import) error {
		go func() {
			time.Sleep(10 * time.Millisecond)
			stop()
		}()
		_, err := im.Wait(ctx, 9*memory.PageSize, 0)
		var ended *memory.Error
		if !errors.As(err, &ended) || ctx.Err() != nil {
			return fmt.Errorf("the wait should have ended with the export: %w", err)
		}
		fmt.Fprintf(to, "%v\n", ended)
		err = im.Read(ctx, 0, make([]byte, 8))
		if memory.OutcomeOf(err) != memory.Refused {
			return fmt.Errorf("a read behind the end should have been refused: %w", err)
		}
		fmt.Fprintf(to, "%v\n", err)
		return nil
	})
}
