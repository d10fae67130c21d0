package reading

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/shmem"
)

// bufferPollInterval is how often read looks for new buffers.
const bufferPollInterval = 50 * time.Millisecond

// noOutputError says that no buffer belongs to an output of that name.
type noOutputError struct {
	Name, Dir string
	Waited    time.Duration
}

func (e *noOutputError) Error() string {
	return fmt.Sprintf("no builder unit on this host hands events out as %q: no segment in %s was called ringlet-%s-0 or "+
		"with another number within %v. Is a run with --output %s --format buffer under way here?", e.Name, e.Dir,
		e.Name, e.Waited, e.Name)
}

// bufferReader reads all buffers of an output, each in a goroutine.
type bufferReader struct {
	name, dir string
	mayLose   bool
	onEntry   func(buffer string, e sink.Entry) error // one call at a time
	onLost    func(buffer string, n uint64) error

	mu          sync.Mutex // held while onEntry or onLost is called
	seenBuffers map[string]bool
	wg          sync.WaitGroup
}

// read reads until every buffer found has ended, ctx ends, or onEntry or onLost fails, whose error it returns.
func (b *bufferReader) read(ctx context.Context, wait time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer b.wg.Wait()
	pattern := regexp.MustCompile(`^ringlet-` + regexp.QuoteMeta(b.name) + `(-[0-9]+)+$`)
	b.seenBuffers = map[string]bool{}
	ended := make(chan error, 1)
	begun, open := time.Now(), 0
	look := time.NewTicker(bufferPollInterval)
	defer look.Stop()
	for {
		names, err := b.find(pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			open++
			b.wg.Go(func() {
				err := b.readBuffer(ctx, name)
				if err != nil {
					stop(err)
				}
				select {
				case ended <- err:
				case <-ctx.Done():
				}
			})
		}
		if open == 0 && len(b.seenBuffers) == 0 && time.Since(begun) >= wait {
			return &noOutputError{Name: b.name, Dir: cmp.Or(b.dir, shmem.DefaultDir), Waited: wait}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			if open--; open == 0 || err != nil {
				return err
			}
		case <-look.C:
		}
	}
}

// find returns the names of buffers that have appeared since the last call.
func (b *bufferReader) find(pattern *regexp.Regexp) (fresh []string, err error) {
	entries, err := os.ReadDir(cmp.Or(b.dir, shmem.DefaultDir))
	if err != nil {
		return nil, fmt.Errorf("cannot look for buffers: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); pattern.MatchString(name) && !b.seenBuffers[name] {
			b.seenBuffers[name] = true
			fresh = append(fresh, name)
		}
	}
	return fresh, nil
}

// readBuffer reads one buffer to its end. It acknowledges each entry when onEntry has returned.
func (b *bufferReader) readBuffer(ctx context.Context, name string) error {
	opts := []shmem.Option{shmem.WithDir(b.dir)}
	if b.mayLose {
		opts = append(opts, shmem.WithLossyReader())
	}
	r, err := shmem.OpenReader(name, opts...)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	defer func() { _ = r.Close() }() // every entry that Next returned is acknowledged
	for {
		e, err := r.Next(ctx)
		var lost *shmem.OverwrittenError
		if errors.As(err, &lost) {
			if err := b.reportLost(name, lost.Entries); err != nil {
				return err
			}
			continue
		}
		switch {
		case errors.Is(err, shmem.ErrEndOfRun):
			return nil
		case ctx.Err() != nil: // before its end
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		err = b.handleEntry(name, e)
		if ack := r.Ack(e); err == nil {
			err = ack
		}
		if err != nil {
			return err
		}
	}
}

func (b *bufferReader) reportLost(name string, lost uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.onLost(name, lost)
}

func (b *bufferReader) handleEntry(name string, e shmem.Entry) error {
	entry, err := sink.ParseEntry(e.Type, e.Data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.onEntry(name, entry)
}
