package certs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often a handshake looks whether the files have changed: four calls of stat a second at most.
	lookEvery = time.Second
	// watchEvery is how often Watch looks.
	watchEvery = time.Minute
)

// watched are the files of an identity.
type watched struct {
	dir, name string // immutable

	renewed, failed atomic.Uint64

	mu     sync.Mutex // guards what follows
	looked time.Time
	stamps [4]stamp // of what was read, or tried
	err    error    // why what stands there now is not used; nil: it is
}

// stamp changes when a file does.
type stamp struct {
	size int64
	at   time.Time
	file uint64
}

func (w *watched) stat() (all [4]stamp) {
	for i, file := range [...]string{caCert, w.name + certSuffix, w.name + keySuffix, revokedFile} {
		if info, err := os.Stat(filepath.Join(w.dir, file)); err == nil {
			all[i] = stamp{size: info.Size(), at: info.ModTime(), file: inode(info)}
		}
	}
	return all
}

// look reads the files again if they have changed. What cannot be used leaves everything as it was, and is tried again:
// the files of a renewal appear one after the other.
func (w *watched) look(id *Identity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if since := now.Sub(w.looked); since >= 0 && since < lookEvery {
		return
	}
	w.looked = now
	stamps := w.stat()
	if stamps == w.stamps && w.err == nil {
		return
	}
	w.stamps = stamps
	fresh, err := load(w.dir, w.name)
	if err == nil && fresh.Peer != id.Peer {
		err = fmt.Errorf("the new certificate in %s is that of the %s %s, and this process is the %s %s: start it anew",
			w.dir, fresh.Role, fresh.Name, id.Role, id.Name)
	}
	w.err = err
	if err != nil {
		w.failed.Add(1)
		return
	}
	id.held.Store(fresh.held.Load())
	w.renewed.Add(1)
}

// renewed counts how often changed files were taken over.
func (id *Identity) renewed() uint64 {
	if id.files == nil {
		return 0
	}
	return id.files.renewed.Load()
}

// trouble says why the files as they are now are not used; nil: they are.
func (id *Identity) trouble() error {
	if id.files == nil {
		return nil
	}
	id.files.look(id)
	id.files.mu.Lock()
	defer id.files.mu.Unlock()
	return id.files.err
}

// Watch reads changed files again and warns of the end of the certificate, until ctx ends.
func (id *Identity) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var w warner
	var told string
	end := id.NotAfter()
	for {
		if err := id.trouble(); err == nil {
			told = ""
		} else if err.Error() != told {
			told = err.Error()
			log.Warn("the keys have changed and cannot be used: this process goes on with those it has",
				"err", err, "good_until", id.NotAfter())
		}
		m := id.now()
		if leaf := m.pair.Leaf; !leaf.NotAfter.Equal(end) {
			end = leaf.NotAfter
			log.Info("the certificate was renewed", "name", id.Name, "good_until", end)
		}
		if yes, left := w.step(time.Now(), m.pair.Leaf.NotBefore, end); yes && left > 0 {
			log.Warn("the certificate ends soon: put a new one in its place, it is read at once",
				"name", id.Name, "good_until", end, "left", left.Round(time.Minute))
		} else if yes {
			log.Error("the certificate has ended: nobody speaks with this process any more until a new one is in its place",
				"name", id.Name, "good_until", end)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// warner decides when to warn of the end of a certificate: in the time of EndsSoon, or the last third of a life that is
// shorter than six weeks, once a day; on the last day and after the end once an hour.
type warner struct{ told time.Time }

// EndsSoon is how long before its end a certificate is warned of.
const EndsSoon = 14 * 24 * time.Hour

func (w *warner) step(now, begin, end time.Time) (yes bool, left time.Duration) {
	left = end.Sub(now)
	if left > min(EndsSoon, end.Sub(begin)/3) {
		w.told = time.Time{}
		return false, left
	}
	pause := 24 * time.Hour
	if left < pause {
		pause = time.Hour
	}
	if now.Sub(w.told) < pause {
		return false, left
	}
	w.told = now
	return true, left
}
