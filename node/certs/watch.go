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
	// reloadInterval is how often a handshake checks whether the files have changed: four calls of stat a second at most.
	reloadInterval = time.Second
	// watchInterval is how often Watch checks them.
	watchInterval = time.Minute
)

// watchedFiles are the files of an identity.
type watchedFiles struct {
	dir, name string // immutable

	renewals, failures atomic.Uint64

	mu        sync.Mutex // guards the fields below
	lastCheck time.Time
	stamps    [4]fileStamp // of the files as last read, or tried
	loadErr   error        // why the present files are not used; nil: they are
}

// fileStamp changes when a file changes.
type fileStamp struct {
	size    int64
	modTime time.Time
	inode   uint64
}

func (w *watchedFiles) stat() (all [4]fileStamp) {
	for i, file := range [...]string{caCert, w.name + certSuffix, w.name + keySuffix, revokedFile} {
		if info, err := os.Stat(filepath.Join(w.dir, file)); err == nil {
			all[i] = fileStamp{size: info.Size(), modTime: info.ModTime(), inode: inode(info)}
		}
	}
	return all
}

// reload reads the files again if they have changed. If they cannot be used, the old keys stay, and the next call tries
// again: the files of a renewal appear one after the other.
func (w *watchedFiles) reload(id *Identity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if since := now.Sub(w.lastCheck); since >= 0 && since < reloadInterval {
		return
	}
	w.lastCheck = now
	stamps := w.stat()
	if stamps == w.stamps && w.loadErr == nil {
		return
	}
	w.stamps = stamps
	fresh, err := loadIdentity(w.dir, w.name)
	if err == nil && fresh.Peer != id.Peer {
		err = fmt.Errorf("the new certificate in %s is for the %s %s, but this process is the %s %s: start it again",
			w.dir, fresh.Role, fresh.Name, id.Role, id.Name)
	}
	w.loadErr = err
	if err != nil {
		w.failures.Add(1)
		return
	}
	id.current.Store(fresh.current.Load())
	w.renewals.Add(1)
}

// renewalCount counts how often changed files were taken over.
func (id *Identity) renewalCount() uint64 {
	if id.files == nil {
		return 0
	}
	return id.files.renewals.Load()
}

// filesError says why the present files are not used; nil: they are.
func (id *Identity) filesError() error {
	if id.files == nil {
		return nil
	}
	id.files.reload(id)
	id.files.mu.Lock()
	defer id.files.mu.Unlock()
	return id.files.loadErr
}

// Watch reads changed files again, and warns before the certificate expires, until ctx ends.
func (id *Identity) Watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var w expiryWarner
	var lastReported string
	end := id.NotAfter()
	for {
		if err := id.filesError(); err == nil {
			lastReported = ""
		} else if err.Error() != lastReported {
			lastReported = err.Error()
			log.Warn("the keys have changed and cannot be used: this process goes on with those it has",
				"err", err, "good_until", id.NotAfter())
		}
		m := id.material()
		if leaf := m.pair.Leaf; !leaf.NotAfter.Equal(end) {
			end = leaf.NotAfter
			log.Info("the certificate was renewed", "name", id.Name, "good_until", end)
		}
		if yes, remaining := w.step(time.Now(), m.pair.Leaf.NotBefore, end); yes && remaining > 0 {
			log.Warn("the certificate ends soon: put a new one in its place, it is read at once",
				"name", id.Name, "good_until", end, "left", remaining.Round(time.Minute))
		} else if yes {
			log.Error("the certificate has ended: no peer accepts this process until a new certificate is in its place",
				"name", id.Name, "good_until", end)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// expiryWarner decides when to warn of a certificate's expiry: once a day within ExpiryWarning of it, or within the
// last third of a life shorter than six weeks; once an hour on the last day and after the end.
type expiryWarner struct{ lastWarned time.Time }

// ExpiryWarning is how long before the end of a certificate the warnings begin.
const ExpiryWarning = 14 * 24 * time.Hour

func (w *expiryWarner) step(now, begin, end time.Time) (yes bool, remaining time.Duration) {
	remaining = end.Sub(now)
	if remaining > min(ExpiryWarning, end.Sub(begin)/3) {
		w.lastWarned = time.Time{}
		return false, remaining
	}
	pause := 24 * time.Hour
	if remaining < pause {
		pause = time.Hour
	}
	if now.Sub(w.lastWarned) < pause {
		return false, remaining
	}
	w.lastWarned = now
	return true, remaining
}
