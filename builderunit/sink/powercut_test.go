package sink

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"ringlet/recording"
	"ringlet/testkit/must"
)

// tape is what a sink did to its files, in order.
type tape struct {
	mu  sync.Mutex
	ops []op
}

// op is a write, a truncation, a synchronisation or the closing of a file.
type op struct {
	file  string // base name
	what  string
	at    int64 // of a write or truncation; of a synchronisation the number of operations that it covers
	bytes []byte
}

func (l *tape) add(o op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
}

func (l *tape) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ops)
}

// taped is a file whose operations are on a tape.
type taped struct {
	file
	tape *tape
}

func (f *taped) name() string {
	return strings.TrimSuffix(filepath.Base(f.Name()), recording.OpenSuffix)
}

func (f *taped) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.file.WriteAt(p, at)
	f.tape.add(op{f.name(), "write", at, bytes.Clone(p[:n])})
	return n, err
}

func (f *taped) Truncate(size int64) error {
	err := f.file.Truncate(size)
	f.tape.add(op{f.name(), "truncate", size, nil})
	return err
}

// Sync covers what was written before it began.
func (f *taped) Sync() error {
	covers := int64(f.tape.len())
	err := f.file.Sync()
	f.tape.add(op{f.name(), "sync", covers, nil})
	return err
}

func (f *taped) Close() error {
	err := f.file.Close()
	f.tape.add(op{f.name(), "close", 0, nil})
	return err
}

// after gives the content of a file after a power cut behind the first cut operations: what was synchronised is there;
// of the rest any write may have reached the disk, in sectors, and what has not is zero, or missing at the end.
func (l *tape) after(rt *rapid.T, name string, cut int) (content []byte, closed bool) {
	covered := int64(0)
	for _, o := range l.ops[:cut] {
		if o.file == name && o.what == "sync" {
			covered = max(covered, o.at)
		}
	}
	for i, o := range l.ops[:cut] {
		if o.file != name {
			continue
		}
		switch o.what {
		case "close":
			closed = true
		case "truncate":
			content = content[:min(int64(len(content)), o.at)]
		case "write":
			whole := int64(i) < covered
			fate := "whole"
			if !whole {
				fate = rapid.SampledFrom([]string{"whole", "lost", "zero", "torn"}).Draw(rt, "fate of a write")
			}
			content = apply(rt, content, o, fate)
		}
	}
	return content, closed
}

func apply(rt *rapid.T, content []byte, o op, fate string) []byte {
	if fate == "lost" {
		return content
	}
	if end := o.at + int64(len(o.bytes)); int64(len(content)) < end {
		content = append(content, make([]byte, end-int64(len(content)))...)
	}
	switch fate {
	case "whole":
		copy(content[o.at:], o.bytes)
	case "torn":
		const sector = 512
		for from := 0; from < len(o.bytes); {
			to := min(len(o.bytes), from+sector-int(o.at+int64(from))%sector)
			if len(o.bytes) < 64*sector && rapid.Bool().Draw(rt, "sector") || len(o.bytes) >= 64*sector && from%7 == 0 {
				copy(content[o.at+int64(from):], o.bytes[from:to])
			}
			from = to
		}
	}
	return content
}

// TestPowerCut cuts the power behind any operation. At durability Disk every MEP whose Flush had returned is there
// after Recover; at the others Recover finds a consistent whole all the same.
func TestPowerCut(t *testing.T) {
	p := testPattern(t)
	parent := must.MemoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(parent, "")
		must.OK(rt, err)
		defer os.RemoveAll(dir)
		r := newRun(rt, filepath.Join(dir, "before"), rapid.SampledFrom(formats).Draw(rt, "format"))
		c := r.config(0, rapid.SampledFrom([]recording.Durability{recording.DurabilityDisk,
			recording.DurabilityFile}).Draw(rt, "durability"))
		c.MaxSegmentBytes = rapid.SampledFrom([]int64{1, 3000, 100_000, 1 << 30}).Draw(rt, "segment bytes")
		l := &tape{}
		s, err := newSegments(c, hook{wrap: func(f *os.File) storage { return &taped{file{f}, l} }})
		must.OK(rt, err)
		defer func() { _ = s.Abort() }()
		want := map[mepAt][]byte{}
		flushed := []int{0} // of MEPs, at each length of the tape
		for k := range rapid.IntRange(1, 12).Draw(rt, "MEPs") {
			m, mep := buildMEP(rt, p, uint64(k), testPacking, rapid.SampledFrom([]int{0, 0, 500, 25_000}).Draw(rt, "gap"))
			want[mepAt{m.MEP, 0}] = encoded(rt, r.format, m, mep)
			must.OK(rt, s.Write(rt.Context(), m, mep))
			if rapid.Bool().Draw(rt, "flush") {
				must.OK(rt, s.Flush())
				at := l.len()
				for len(flushed) <= at {
					flushed = append(flushed, flushed[len(flushed)-1])
				}
				flushed[at] = k + 1
			}
		}
		if _, err := s.Finish(); err != nil {
			rt.Fatal(err)
		}
		cut := rapid.IntRange(0, len(l.ops)).Draw(rt, "power cut behind")
		after := r.cutPower(rt, l, cut, filepath.Join(dir, "after"))
		found, err := recording.Recover(rt.Context(), after.runDir)
		must.OK(rt, err)
		for _, f := range found {
			if f.Err != nil {
				rt.Fatal(f.String())
			}
		}
		got := after.readBack(rt, tails(rt, after.runDir)...)
		for k := range got {
			if !bytes.Equal(got[k], want[k]) {
				rt.Fatalf("MEP %+v is not what was written", k)
			}
		}
		safe := flushed[min(cut, len(flushed)-1)]
		for k := range uint64(safe) {
			if _, there := got[mepAt{k, 0}]; !there && c.Durability == recording.DurabilityDisk {
				rt.Fatalf("MEP %d of %d that were flushed is lost: %v", k, safe, found)
			}
		}
	})
}

// cutPower makes the directory that a power cut leaves: the closed segments are in the manifest.
func (r *testRun) cutPower(rt *rapid.T, l *tape, cut int, dir string) *testRun {
	after := &testRun{dir: dir, key: r.key, format: r.format}
	var err error
	about := recording.Manifest{Run: 9, Key: r.key, Format: r.format}
	after.runDir, err = recording.OpenRun(dir, about, false)
	must.OK(rt, err)
	whole, err := recording.Load(r.runDir)
	must.OK(rt, err)
	seen, closed := map[string]bool{}, map[string]bool{}
	for _, o := range l.ops[:cut] {
		if seen[o.file] {
			continue
		}
		seen[o.file] = true
		content, isClosed := l.after(rt, o.file, cut)
		name := o.file
		if closed[name] = isClosed; !isClosed && !strings.HasSuffix(name, recording.IndexSuffix) {
			name += recording.OpenSuffix
		}
		must.OK(rt, os.WriteFile(filepath.Join(after.runDir, name), content, 0o600))
	}
	err = recording.UpdateManifest(after.runDir, func(m *recording.Manifest) error {
		for _, b := range whole.Builders {
			for _, s := range b.Segments {
				if closed[s.Name] {
					m.Builder(b.Index).AddSegment(s)
				}
			}
		}
		return nil
	})
	must.OK(rt, err)
	return after
}
