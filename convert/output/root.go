package output

import (
	"errors"
	"fmt"
	"math"
	"os"

	"go-hep.org/x/hep/groot"
	"go-hep.org/x/hep/groot/rbase"
	"go-hep.org/x/hep/groot/riofs"
	"go-hep.org/x/hep/groot/rtree"

	"ringlet/convert/input"
)

// basketBytes is the size of a basket: each branch buffers one.
const basketBytes = 32 << 10

// tree writes a TTree with a branch for each column. The branch "data" is an array of bytes, and the branch "size" has
// its length. Of the forms that groot offers, only this one can write both empty arrays and arrays larger than a
// basket.
type tree struct {
	path  string
	f     *riofs.File
	w     rtree.Writer
	about string

	run, orbit, bunch uint32
	event             uint64
	trigger, stamp    uint64 // 2^64-1: there is none
	source            uint16
	kind, version     uint8
	missing           bool
	size              int32
	data              []uint8
}

func openROOT(path, table, about string) (File, error) {
	f, err := groot.Create(path)
	if err != nil {
		return nil, written(path, err)
	}
	t := &tree{path: path, f: f, about: about}
	t.w, err = rtree.NewWriter(f, table, []rtree.WriteVar{
		{Name: "run", Value: &t.run},
		{Name: "event", Value: &t.event},
		{Name: "orbit", Value: &t.orbit},
		{Name: "bunch", Value: &t.bunch},
		{Name: "source", Value: &t.source},
		{Name: "type", Value: &t.kind},
		{Name: "version", Value: &t.version},
		{Name: "missing", Value: &t.missing},
		{Name: "size", Value: &t.size},
		{Name: "data", Value: &t.data, Count: "size"},
		{Name: "trigger", Value: &t.trigger},
		{Name: "stamp", Value: &t.stamp},
	}, rtree.WithBasketSize(basketBytes))
	if err != nil {
		return nil, errors.Join(written(path, err), f.Close())
	}
	return t, nil
}

// guarded turns a panic of groot into an error.
func (t *tree) guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: the library that writes ROOT files cannot go on: %v", t.path, p)
		}
	}()
	return written(t.path, do())
}

// Write adds an entry.
func (t *tree) Write(r *input.Row) error {
	t.run, t.event, t.orbit, t.bunch = r.Run, r.Event, r.Orbit, r.Bunch
	t.source, t.kind, t.version, t.missing = r.Source, uint8(r.Type), r.Version, r.Missing()
	t.size, t.data = int32(len(r.Data)), r.Data
	t.trigger, t.stamp = math.MaxUint64, math.MaxUint64
	if r.HasTrigger {
		t.trigger = r.Trigger
	}
	if r.HasStamp {
		t.stamp = r.Stamp
	}
	return t.guarded(func() error {
		_, err := t.w.Write()
		return err
	})
}

// Buffered is 0: baskets are small.
func (t *tree) Buffered() int { return 0 }

// Flush does nothing: groot writes a basket when it is full.
func (t *tree) Flush() error { return nil }

// Close writes the tree and the file's directory.
func (t *tree) Close() error {
	err := t.guarded(func() error {
		if err := describeLeaves(); err != nil {
			return err
		}
		if err := t.w.Close(); err != nil {
			return err
		}
		if err := t.f.Put("about", rbase.NewObjString(t.about)); err != nil {
			return err
		}
		return t.f.Close()
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(t.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return written(t.path, errors.Join(f.Sync(), f.Close()))
}

// Abandon closes the incomplete file.
func (t *tree) Abandon() { _ = t.guarded(t.f.Close) }
