package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A progressWatch notes when the files of each builder unit grow. It asks the file system alone, and so sees a
// standstill that the program does not report.
type progressWatch struct {
	dirs []string // of the run's outputs; those that are not there yet are looked for again
	end  chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	sizes map[int]int64       // bytes of all files of a builder unit, by index
	grown map[int][]time.Time // when they grew
}

// progressInterval is the time between two looks. A gap is known to about this time.
const progressInterval = 4 * time.Millisecond

// watchProgress begins to watch the output of a run in directories.
func watchProgress(runDirs []string) *progressWatch {
	w := &progressWatch{
		dirs:  runDirs,
		end:   make(chan struct{}),
		sizes: map[int]int64{},
		grown: map[int][]time.Time{},
	}
	w.done.Go(func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-w.end:
				return
			case <-tick.C:
				w.look()
			}
		}
	})
	return w
}

// close ends the watch.
func (w *progressWatch) close() {
	close(w.end)
	w.done.Wait()
}

// look sums the sizes of the data files of each builder unit.
func (w *progressWatch) look() {
	now, sizes := time.Now(), map[int]int64{}
	for _, dir := range w.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // nobody has made it yet
		}
		for _, e := range entries {
			bu, ok := builderOfFile(e.Name())
			if !ok {
				continue
			}
			if st, err := os.Stat(filepath.Join(dir, e.Name())); err == nil { // else it was renamed
				sizes[bu] += st.Size()
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for bu, size := range sizes {
		if size > w.sizes[bu] {
			w.grown[bu], w.sizes[bu] = append(w.grown[bu], now), size
		}
	}
}

// builderOfFile is the builder unit that writes a data file, by the name of the file: bu3-00001.mep.open.
func builderOfFile(name string) (bu int, ok bool) {
	rest, ok := strings.CutPrefix(name, "bu")
	index, rest, dash := strings.Cut(rest, "-")
	if !ok || !dash || !strings.HasSuffix(strings.TrimSuffix(rest, ".open"), ".mep") {
		return 0, false
	}
	bu, err := strconv.Atoi(index)
	return bu, err == nil
}

// growths are the times at which the files of a builder unit grew.
func (w *progressWatch) growths(bu int) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.grown[bu]
}

// longestGap is the longest time without growth that overlaps from..to, and when it ended. Times are in order. A gap
// may have begun before from; one that lasts until to ends there, and is open.
func longestGap(times []time.Time, from, to time.Time) (longest time.Duration, ended time.Time, open bool) {
	last := from
	for _, t := range times {
		if !t.After(from) {
			last = t
		}
	}
	for _, t := range append(times[:len(times):len(times)], to) {
		if !t.After(from) {
			continue
		}
		isEnd := !t.Before(to)
		if isEnd {
			t = to
		}
		if gap := t.Sub(last); gap > longest {
			longest, ended, open = gap, t, isEnd
		}
		if isEnd {
			break
		}
		last = t
	}
	return longest, ended, open
}
