package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

// inEventOrder is what a merged file has to be.
func inEventOrder(t must.TB, f Format, meps ...uint64) []byte {
	t.Helper()
	slices.Sort(meps)
	var b []byte
	for _, k := range slices.Compact(meps) {
		b = append(b, mepBytes(t, f, k, rigPacking)...)
	}
	return b
}

func upTo(n uint64) (meps []uint64) {
	for k := range n {
		meps = append(meps, k)
	}
	return meps
}

// isMerged checks the file, and what stands beside it.
func isMerged(t testing.TB, dst string, want []byte) *RunVerification {
	t.Helper()
	got, err := os.ReadFile(dst)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, want %d: %v", len(got), len(want), err)
	}
	for _, suffix := range []string{mergingSuffix, mergingSuffix + manifestSuffix, mergingSuffix + IndexSuffix} {
		if _, err := os.Stat(dst + suffix); !os.IsNotExist(err) {
			t.Fatalf("%s was left: %v", suffix, err)
		}
	}
	return verified(t, dst, VerifyOptions{})
}

func TestMergeMakesOneFileInOrder(t *testing.T) {
	for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
		for _, keep := range []bool{true, false} {
			t.Run(fmt.Sprint(f, keep), func(t *testing.T) {
				out := filepath.Join(must.MemoryDir(t), "x.mdf.segments")
				must.OK(t, os.Mkdir(out, 0o777))
				r := newRig(t, out, f)
				r.scattered(rand.New(rand.NewPCG(3, 1)), 3, 400)
				r.verdict(1600, 1600)
				dir, dst := r.done(), filepath.Join(filepath.Dir(out), "x.mdf")
				merged, err := Merge(context.Background(), out, dst, MergeOptions{Remove: !keep})
				must.OK(t, err)
				if merged.MEPs != 400 || merged.Events != 1600 || merged.Path != dst {
					t.Fatalf("%+v", merged)
				}
				if v := isMerged(t, dst, inEventOrder(t, f, upTo(400)...)); !v.IsGood {
					t.Fatal(said(v))
				}
				if _, err := os.Stat(out); os.IsNotExist(err) == keep {
					t.Fatalf("%s: %v", out, err)
				}
				if keep {
					if v := verified(t, dir, VerifyOptions{}); !v.IsGood {
						t.Fatal(said(v))
					}
				}
				again, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: !keep})
				if err != nil || again.CRC != merged.CRC {
					t.Fatalf("again: %+v, %v", again, err)
				}
			})
		}
	}
}

// A segment that is in order already is not copied: it gets the name, or, kept, shares its blocks where the file system
// can.
func TestMergeOfOneSegmentInOrder(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(t, must.MemoryDir(t), FormatMDF)
		id := r.closed(0, mep(0, 1), mep(1, 2), mep(2, 1))
		dir, dst := r.done(), filepath.Join(r.dir, "..", "x.mdf")
		before, err := os.Stat(filepath.Join(dir, id.Name()))
		must.OK(t, err)
		if _, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: !keep}); err != nil {
			t.Fatal(err)
		}
		isMerged(t, dst, inEventOrder(t, FormatMDF, 0, 1, 2))
		if after, err := os.Stat(dst); err != nil || os.SameFile(before, after) == keep {
			t.Fatalf("keep %v: %v", keep, err)
		}
	}
}

// MEPs of any order in any number of spans come out in order, with their highest attempts.
func TestMergeOfAnyOrder(t *testing.T) {
	base := must.MemoryDir(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		out := filepath.Join(base, fmt.Sprint(n))
		must.OK(rt, os.Mkdir(out, 0o777))
		defer os.RemoveAll(out)
		r := newRig(rt, out, FormatMFP)
		stride := rapid.SampledFrom([]uint64{1, 5_000, 70_000}).Draw(rt, "stride")
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var meps []uint64
		for b := range rapid.IntRange(1, 4).Draw(rt, "builders") {
			for range rnd.IntN(4) {
				var entries []Entry
				for range rnd.IntN(20) {
					k := rnd.Uint64N(60) * stride
					entries, meps = append(entries, mep(k, 1+rnd.Uint32N(3))), append(meps, k)
				}
				r.closed(b, entries...)
			}
		}
		dst := filepath.Join(out, "x.mfp")
		o := MergeOptions{Remove: rnd.IntN(2) == 0, planMEPs: uint64(1 + rnd.IntN(40))}
		if _, err := Merge(context.Background(), r.done(), dst, o); err != nil {
			rt.Fatal(err)
		}
		isMerged(t, dst, inEventOrder(rt, FormatMFP, meps...))
	})
}

// A merge that is ended at any of its steps, and once more at any later one, has lost nothing, and is finished by the
// next.
func TestMergeEndedAnywhereGoesOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		remove bool
		one    bool
	}{{"remove", true, false}, {"keep", false, false}, {"link", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			steps := 1
			for kill := 0; kill < steps; kill++ {
				out := must.MemoryDir(t)
				r := newRig(t, out, FormatMEP)
				if c.one {
					r.closed(0, mep(0, 1), mep(1, 1), mep(2, 1), mep(3, 1))
				} else {
					r.closed(0, mep(0, 1), mep(3, 2))
					r.closed(1, mep(2, 1), mep(1, 1), mep(3, 1))
				}
				r.verdict(16, 16)
				dir, dst := r.done(), filepath.Join(out, "x.mep")
				do := func(kill int) (steps int, err error) {
					_, err = Merge(context.Background(), dir, dst, MergeOptions{
						Remove: c.remove,
						faultAfter: func(string) error {
							if steps++; steps == kill+1 {
								return errKilled
							}
							return nil
						},
					})
					return steps, err
				}
				n, err := do(kill)
				steps = max(steps, n+1)
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatalf("step %d: %v", kill, err)
				}
				good(t, dir, dst)
				if kill%2 == 1 { // what a lost page of a temporary file looks like
					spoil(t, dst+mergingSuffix, kill)
				}
				if _, err := do(kill / 2); err != nil && !errors.Is(err, errKilled) {
					t.Fatalf("step %d, again: %v", kill, err)
				}
				good(t, dir, dst)
				if _, err := do(-1); err != nil {
					t.Fatalf("step %d, at last: %v", kill, err)
				}
				isMerged(t, dst, inEventOrder(t, FormatMEP, upTo(4)...))
				if _, err := os.Stat(dir); os.IsNotExist(err) != c.remove {
					t.Fatalf("step %d: %s: %v", kill, dir, err)
				}
			}
			if steps < 10 {
				t.Fatalf("only %d steps", steps)
			}
		})
	}
}

// good says that every event is in the segments, or in the merged file, and that Verify finds it there.
func good(t *testing.T, dir, dst string) {
	t.Helper()
	for _, path := range []string{dir, dst} {
		if v, err := Verify(context.Background(), path, VerifyOptions{}); err == nil && v.IsGood() {
			return
		}
	}
	t.Fatal("the events are in neither")
}

// hasSecondName tells that a file has another name, too: that of a segment.
func hasSecondName(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Nlink > 1
}

// spoil changes a byte of a file that is there, unless it is a second name of a segment.
func spoil(t *testing.T, path string, at int) {
	t.Helper()
	if b, err := os.ReadFile(path); err == nil && len(b) > 0 && !hasSecondName(path) {
		patch(t, path, flip(at*37%len(b)))
	}
}

func TestMergeRefuses(t *testing.T) {
	type place struct {
		r        *rig
		dir, dst string
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, p *place)
		says string
	}{
		"a file that is there": {func(t *testing.T, p *place) { write(t, p.dst, "mine") }, "x.mep exists: .*--overwrite"},
		"a manifest":           {func(t *testing.T, p *place) { write(t, p.dst+".json", "mine") }, "x.mep.json exists"},
		"an index":             {func(t *testing.T, p *place) { write(t, p.dst+".idx", "mine") }, "x.mep.idx exists"},
		"a temporary file": {func(t *testing.T, p *place) { write(t, p.dst+".merging", "mine") },
			"x.mep.merging exists"},
		"somebody's journal": {func(t *testing.T, p *place) { write(t, p.dst+".merging.json", "mine") },
			"merging.json exists"},
		"another merge": {func(t *testing.T, p *place) {
			write(t, p.dst+".merging.json",
				`{"run":7,"key":"ab","from":"/a"}`)
		}, "run 7 in /a"},
		"a directory":           {func(t *testing.T, p *place) { mkdir(t, p.dst) }, "x.mep exists and is a directory"},
		"no run":                {func(t *testing.T, p *place) { p.dir = t.TempDir() }, "no run is recorded"},
		"no directory":          {func(t *testing.T, p *place) { p.dir += "no" }, "no such file"},
		"no directory to write": {func(t *testing.T, p *place) { p.dst = filepath.Join(p.dir, "none/x") }, "no such file"},
		"two runs": {func(t *testing.T, p *place) {
			p.dir = filepath.Dir(p.dir)
			mkdir(t, RunDir(p.dir, 7))
		}, "2 runs, run-000007 to run-000123"},
		"an open segment": {func(t *testing.T, p *place) {
			data, index, _ := p.r.segment(SegmentID{0, 9, FormatMEP}, mep(9, 1))
			p.r.file("bu0-00009.mep.open", data)
			p.r.file("bu0-00009.idx", index)
		}, "ringlet recover"},
		"a segment being written": {func(t *testing.T, p *place) {
			data, index, _ := p.r.segment(SegmentID{0, 9, FormatMEP}, mep(9, 1))
			p.r.file("bu0-00009.mep.open", data)
			p.r.file("bu0-00009.idx", index)
			lock(t, filepath.Join(p.dir, "bu0-00009.idx"))
		}, "wait until the run has ended"},
		"a damaged index": {func(t *testing.T, p *place) { patch(t, filepath.Join(p.dir, "bu0-00001.idx"), flip(70)) },
			"damaged index"},
		"a damaged MEP": {func(t *testing.T, p *place) { patch(t, filepath.Join(p.dir, "bu1-00001.mep"), flip(70)) },
			"bu1-00001.mep: damaged data: events 4 to 7"},
		"a lacking file": {func(t *testing.T, p *place) { remove(t, filepath.Join(p.dir, "bu1-00001.mep")) },
			"missing file"},
		"another's merge now": {func(t *testing.T, p *place) {
			write(t, filepath.Join(p.dir, mergeLock), "")
			lock(t, filepath.Join(p.dir, mergeLock))
		}, "by another process"},
	} {
		t.Run(name, func(t *testing.T) {
			out := must.MemoryDir(t)
			p := &place{r: newRig(t, out, FormatMEP)}
			p.r.closed(0, mep(0, 1))
			p.r.closed(1, mep(1, 1))
			p.dir, p.dst = p.r.done(), filepath.Join(out, "x.mep")
			c.do(t, p)
			before := tree(t, out)
			_, err := Merge(context.Background(), p.dir, p.dst, MergeOptions{Remove: true})
			if err == nil || !match(c.says, err.Error()) {
				t.Fatal(err)
			}
			if after := tree(t, out); after != before {
				t.Fatalf("%v\nbefore %s\nafter %s", err, before, after)
			}
		})
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(data), 0o666))
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.Mkdir(path, 0o777))
}

// tree lists files and their bytes, without the lock of merges.
func tree(t *testing.T, dir string) (list string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != mergeLock {
			b, _ := os.ReadFile(path)
			list += fmt.Sprintf("%s %x\n", path, b)
		}
		return err
	})
	must.OK(t, err)
	return list
}

// With Overwrite the file is replaced, and only when the new one is whole.
func TestMergeOverwrites(t *testing.T) {
	out := must.MemoryDir(t)
	r := newRig(t, out, FormatMEP)
	r.closed(0, mep(1, 1), mep(0, 1))
	dir, dst := r.done(), filepath.Join(out, "x.mep")
	write(t, dst, "old")
	write(t, dst+manifestSuffix, "old")
	_, err := Merge(context.Background(), dir, dst, MergeOptions{Overwrite: true, faultAfter: func(step string) error {
		b, _ := os.ReadFile(dst)
		if !slices.Contains([]string{"named", "on the disk", "in the manifest", "temporary files removed"}, step) &&
			string(b) != "old" {
			t.Errorf("at %q the old file is gone", step)
		}
		return nil
	}})
	must.OK(t, err)
	isMerged(t, dst, inEventOrder(t, FormatMEP, 0, 1))
}

// A file that comes under the name while the merge writes stays, with what stands beside it.
func TestMergeLeavesWhatCameMeanwhile(t *testing.T) {
	for _, suffix := range []string{"", IndexSuffix, manifestSuffix} {
		out := must.MemoryDir(t)
		r := newRig(t, out, FormatMEP)
		r.closed(0, mep(1, 1), mep(0, 1))
		dir, dst := r.done(), filepath.Join(out, "x.mep")
		before := tree(t, dir)
		_, err := Merge(t.Context(), dir, dst, MergeOptions{Remove: true, faultAfter: func(step string) error {
			if step == "synchronised" {
				write(t, dst+suffix, "another's")
			}
			return nil
		}})
		var taken *nameInUseError
		if b, _ := os.ReadFile(dst + suffix); !errors.As(err, &taken) || string(b) != "another's" || tree(t, dir) != before {
			t.Errorf("%q: %v, %q", suffix, err, b)
		}
		if files, err := filepath.Glob(dst + "*"); err != nil || len(files) != 1 {
			t.Errorf("%q: %v, %v", suffix, files, err)
		}
	}
}

// TestAnInterruptedMergeLeavesNothing: what it wrote is removed, the segments are as they were, and the next one makes
// the file.
func TestAnInterruptedMergeLeavesNothing(t *testing.T) {
	for _, at := range []string{"claimed", "room", "write", "copied", "manifest beside"} {
		out := must.MemoryDir(t)
		r := newRig(t, out, FormatMEP)
		r.closed(0, mep(1, 1), mep(0, 1))
		r.closed(1, mep(2, 1))
		dir, dst := r.done(), filepath.Join(out, "x.mep")
		before := tree(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Merge(ctx, dir, dst, MergeOptions{Remove: true, faultAfter: func(step string) error {
			if step == at {
				cancel()
				return ctx.Err()
			}
			return nil
		}})
		if !errors.Is(err, context.Canceled) || tree(t, dir) != before {
			t.Errorf("%s: %v, or the segments have changed", at, err)
		}
		if remaining, err := filepath.Glob(dst + mergingSuffix + "*"); err != nil || len(remaining) > 0 {
			t.Errorf("%s: %v is left, %v", at, remaining, err)
		}
		_, err = Merge(t.Context(), dir, dst, MergeOptions{Remove: true})
		must.OK(t, err)
		isMerged(t, dst, inEventOrder(t, FormatMEP, 0, 1, 2))
	}
}

// What Recover cut off is in no merged file: it stays, and the manifest with it.
func TestMergeLeavesTails(t *testing.T) {
	out := must.MemoryDir(t)
	r := newRig(t, out, FormatMEP)
	id := r.closed(0, mep(1, 1), mep(0, 1))
	r.file(id.Name()+TailSuffix, []byte("half a MEP"))
	dir, dst := r.done(), filepath.Join(out, "x.mep")
	if _, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: true}); err != nil {
		t.Fatal(err)
	}
	isMerged(t, dst, inEventOrder(t, FormatMEP, 0, 1))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 2 {
		t.Fatal(entries, err)
	}
	if c := read(t, dir); c.Events() != 8 || c.ProblemCount() != 0 || c.Merged == nil {
		t.Fatalf("%d events, %d problems", c.Events(), c.ProblemCount())
	}
	if _, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: true}); err != nil {
		t.Fatal(err)
	}
}
