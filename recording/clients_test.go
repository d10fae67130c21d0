package recording

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"hash/adler32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/testkit/cases"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
)

// readers are programs of the clients that read recordings: they print each fragment of each path, and each damage.
var readers = map[string]func(t *testing.T) []string{
	"Python": func(t *testing.T) []string {
		return append(interpreted.NumPy(t, "../clients/python"), "testdata/read.py")
	},
	"C++": func(t *testing.T) []string {
		return []string{compiled.CXX(t, "../clients/c", "testdata/read.cpp")}
	},
}

// readBy returns what a reader says of each path.
func readBy(t *testing.T, reader []string, paths ...string) map[string]string {
	t.Helper()
	cmd := exec.Command(reader[0], append(reader[1:], paths...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, complaint.String(), lastOf(string(out), 2000))
	}
	all := map[string]string{}
	for one := range strings.SplitSeq(string(out), "= ") {
		path, text, _ := strings.Cut(one, "\n")
		all[path] = text
	}
	return all
}

func lastOf(s string, n int) string { return s[max(0, len(s)-n):] }

// fragmentLines are what a reader has to say of the fragments of events 0 to before n.
func fragmentLines(n uint64) string {
	var b strings.Builder
	p := rigPattern()
	for e := range n {
		for s := range uint16(rigSources) {
			data := make([]byte, p.Size(s, e))
			p.Fill(data, s, e)
			fmt.Fprintln(&b, e, s, uint8(p.FragmentType(s)), pattern.Version, len(data), adler32.Checksum(data))
		}
	}
	return b.String()
}

// TestClientsReadRecordings holds that the clients give each fragment once, in order, of a run with copies of MEPs, of
// a merged file, and of files without an index.
func TestClientsReadRecordings(t *testing.T) {
	const meps = 40
	want := fragmentLines(meps * rigPacking)
	for name, reader := range readers {
		for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
			t.Run(fmt.Sprint(name, f), func(t *testing.T) {
				start := reader(t)
				r := newRig(t, must.MemoryDir(t), f)
				r.scattered(rand.New(rand.NewPCG(1, 2)), 3, meps)
				r.verdict(meps*rigPacking, meps*rigPacking)
				dir := r.done()
				must.OK(t, os.Rename(dir, dir+".sound"))
				dir += ".sound"
				merged := filepath.Join(filepath.Dir(dir), "x."+f.String())
				_, err := Merge(context.Background(), dir, merged, MergeOptions{})
				must.OK(t, err)
				plain := filepath.Join(t.TempDir(), "plain."+f.String())
				data, err := os.ReadFile(merged)
				must.OK(t, err)
				must.OK(t, os.WriteFile(plain, data, 0o666))
				said := readBy(t, start, dir, merged, plain)
				byNumber := fmt.Sprintf("by number [%d, %d, %d] True\n", rigSources, rigSources, rigSources)
				for path, want := range map[string]string{dir: want + byNumber, merged: want, plain: want} {
					if said[path] != want {
						t.Errorf("of %s %d bytes are said, %d are expected: %s", path, len(said[path]), len(want),
							lastOf(said[path], 500))
					}
				}
			})
		}
	}
}

// TestClientsTolerateDamage holds that the clients, however a file is changed, end as they should, give no fragment
// that was not recorded, and say that something is damaged where they lack one. Files without an index have no
// checksums, so there they may give what was changed.
func TestClientsTolerateDamage(t *testing.T) {
	const meps = 6
	whole := fragmentLines(meps * rigPacking)
	isRecorded := map[string]bool{}
	for line := range strings.Lines(whole) {
		isRecorded[line] = true
	}
	for name, reader := range readers {
		for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
			t.Run(fmt.Sprint(name, f), func(t *testing.T) {
				start, tmp := reader(t), must.MemoryDir(t)
				rnd := rand.New(rand.NewPCG(7, uint64(f)))
				var dirs, files []string
				for i := range cases.Count(1500, 60) {
					dirs = append(dirs, damagedRun(t, rnd, filepath.Join(tmp, fmt.Sprint("r", i)), f, meps))
					files = append(files, filepath.Join(tmp, fmt.Sprintf("plain%d.%s", i, f)))
					must.OK(t, os.WriteFile(files[i], changedBytes(rnd, inEventOrder(t, f, upTo(meps)...)), 0o666))
				}
				said := readBy(t, start, append(files, dirs...)...)
				for _, path := range dirs {
					fragments, damages, text := 0, 0, said[path]
					for line := range strings.Lines(text) {
						if strings.HasPrefix(line, "damaged ") {
							damages++
							continue
						}
						if fragments++; !isRecorded[line] {
							t.Errorf("%s: %s was not recorded", path, line)
						}
					}
					if fragments < meps*rigPacking*rigSources && damages == 0 {
						t.Errorf("%s: %d fragments of %d, and nothing is damaged", path, fragments, meps*rigPacking*rigSources)
					}
				}
			})
		}
	}
}

// damagedRun makes the directory of a run of which one file was changed.
func damagedRun(t *testing.T, rnd *rand.Rand, in string, f Format, meps uint64) string {
	t.Helper()
	must.OK(t, os.Mkdir(in, 0o777))
	r := newRig(t, in, f)
	var entries []Entry
	for k := range meps {
		entries = append(entries, mep(k, 1))
	}
	r.closed(0, entries[:meps/2]...)
	r.closed(1, entries[meps/2:]...)
	dir := r.done()
	names, err := os.ReadDir(dir)
	must.OK(t, err)
	path := filepath.Join(dir, names[rnd.IntN(len(names))].Name())
	if rnd.IntN(10) == 0 {
		must.OK(t, os.Remove(path))
	} else {
		patch(t, path, func(b []byte) []byte { return changedBytes(rnd, b) })
	}
	return dir
}

// changedBytes changes some bytes, cuts them, or appends some: numbers that stand in headers are often extreme.
func changedBytes(rnd *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + rnd.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := rnd.IntN(len(b))
		if rnd.IntN(2) == 0 {
			at = rnd.IntN(min(len(b), 64))
		}
		switch rnd.IntN(5) {
		case 0:
			b = b[:at]
		case 1:
			b = append(b, bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(100))...)
		case 2:
			copy(b[at:], "\xff\xff\xff\xff\xff\xff\xff\xff"[:1+rnd.IntN(8)])
		case 3:
			copy(b[at:], "\x00\x00\x00\x00\x00\x00\x00\x00"[:1+rnd.IntN(8)])
		default:
			b[at] ^= 1 << rnd.IntN(8)
		}
	}
	return b
}

// TestClientsReadWideMFPs holds that the clients read MFPs of all versions.
func TestClientsReadWideMFPs(t *testing.T) {
	sum := adler32.Checksum([]byte("abc"))
	readsGolden(t, "mep-wide.hex", "wide.mep", fmt.Sprintf("9 3 16 0 3 %d\n9 7 16 0 3 %[1]d\n", sum))
	readsGolden(t, "mfp-worded.hex", "worded.mfp", fmt.Sprintf("9 7 16 1 3 %d trigger 17\n10 7 51 1 1 %d stamp %d\n", sum,
		adler32.Checksum([]byte("x")), uint64(1)<<60))
}

// readsGolden holds what the clients say of a golden file, under a name.
func readsGolden(t *testing.T, file, name, want string) {
	golden, err := os.ReadFile("../event/testdata/" + file)
	must.OK(t, err)
	var digits strings.Builder
	for line := range strings.Lines(string(golden)) {
		code, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(code), ""))
	}
	data, err := hex.DecodeString(digits.String())
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), name)
	must.OK(t, os.WriteFile(path, data, 0o666))
	for language, reader := range readers {
		t.Run(language+" "+name, func(t *testing.T) {
			if said := readBy(t, reader(t), path)[path]; said != want {
				t.Errorf("said %q, expected %q", said, want)
			}
		})
	}
}

// TestClientsJoinChains holds that the clients join the banks of a large fragment, and say that a chain is damaged.
func TestClientsJoinChains(t *testing.T) {
	data := make([]byte, 200_001)
	for i := range data {
		data[i] = byte(i >> 7)
	}
	record, err := event.AppendRecordFromFragments(nil, event.MDFHeader{Run: 1}, []event.SourceFragment{
		{Type: 9, Source: 1, Data: data[:10]}, {Type: 51, Version: 2, Source: 7, Data: data},
		{Type: 9, Source: 2, Data: data[:65_527]}})
	must.OK(t, err)
	whole, broken := filepath.Join(t.TempDir(), "whole.mdf"), filepath.Join(t.TempDir(), "broken.mdf")
	must.OK(t, os.WriteFile(whole, record, 0o666))
	again := bytes.Clone(record)
	again[event.MDFHeaderSize+20+65_532+4] = 51 // the type of the second bank of the chain
	must.OK(t, os.WriteFile(broken, again, 0o666))
	want := fmt.Sprintf("0 1 9 0 10 %d\n0 7 51 2 200001 %d\n0 2 9 0 65527 %d\n", adler32.Checksum(data[:10]),
		adler32.Checksum(data), adler32.Checksum(data[:65_527]))
	for name, reader := range readers {
		t.Run(name, func(t *testing.T) {
			said := readBy(t, reader(t), whole, broken)
			if said[whole] != want || !strings.Contains(said[broken], "damaged") {
				t.Errorf("said %q, expected %q; of what is broken: %q", said[whole], want, said[broken])
			}
		})
	}
}
