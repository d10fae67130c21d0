package arrays

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/readback"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var formats = []Format{HDF5, NPZ}

// Whatever is appended, to whichever array, in pieces of any length, and flushed at any time, is read back.
func TestWhatIsAppendedIsThere(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		for _, format := range formats {
			path := filepath.Join(dir, "x")
			f, err := Create(path, format)
			if err != nil {
				t.Fatal(err)
			}
			wide, small, bulk := f.Add("t", "wide", Uint64), f.Add("t", "small", Bool), f.AddBulk("t")
			want := map[string][]byte{"wide": nil, "small": nil, "data": nil}
			rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
			for range rapid.IntRange(0, 20).Draw(t, "steps") {
				switch a := []*Array{wide, small, bulk, nil}[rnd.IntN(4)]; a {
				case nil:
					err = f.Flush()
				default:
					b := make([]byte, a.of.size*rnd.IntN([]int{3, 3 * blockBytes / a.of.size}[rnd.IntN(2)]))
					for i := range b {
						b[i] = byte(rnd.Uint32())
					}
					want[a.name] = append(want[a.name], b...)
					err = a.Append(b)
				}
				if err != nil || f.Buffered() > 3*blockBytes*5/4 {
					t.Fatalf("%v, %d bytes are buffered", err, f.Buffered())
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := readback.Read(path)
			for name, b := range want {
				if err != nil || !bytes.Equal(got[name].Data, b) {
					t.Fatalf("%v: %s: %v, %d bytes of %d", format, name, err, len(got[name].Data), len(b))
				}
			}
		}
	})
}

// TestTreesOfManyLevels: an index has three levels and more, and each chunk is found by it.
func TestTreesOfManyLevels(t *testing.T) {
	for _, chunks := range []int{1, 2, nodeChildren, nodeChildren + 1, nodeChildren*nodeChildren + 1} {
		path := filepath.Join(t.TempDir(), "x")
		f, err := Create(path, HDF5)
		ok(t, err)
		a := f.Add("t", "n", Uint16)
		a.size = 8 // a file of many blocks is small
		for i := range uint64(chunks)*4 - 1 {
			ok(t, a.AppendUint(i))
		}
		ok(t, f.Close())
		got, err := readback.Read(path)
		ok(t, err)
		for i, n := range got["n"].Uints() {
			if n != uint64(i)&0xFFFF {
				t.Fatalf("%d chunks: element %d is %d", chunks, i, n)
			}
		}
		if n := len(got["n"].Data); n != chunks*8-2 {
			t.Errorf("%d chunks have %d bytes", chunks, n)
		}
	}
}

// Texts have the width of the longest, and stand in UTF-8 or in characters.
func TestTexts(t *testing.T) {
	want := []string{"", "beam", "Δt = 5 µs 🙂", "x"}
	for _, format := range formats {
		path := filepath.Join(t.TempDir(), "x")
		f, err := Create(path, format)
		ok(t, err)
		f.Describe("run 7")
		ok(t, errors.Join(f.AddTexts("t", "some", want), f.AddTexts("t", "none", nil), f.Close()))
		got, err := readback.Read(path)
		ok(t, err)
		if texts := got["some"].Texts(format == NPZ); !slices.Equal(texts, want) || len(got["none"].Data) > 0 {
			t.Errorf("%v: %q", format, texts)
		}
		if about := got["about"].Texts(format == NPZ); !slices.Equal(about, []string{"run 7"}) {
			t.Errorf("the description is %q", about)
		}
	}
}

// Nothing is left beside the file, and an incomplete one is taken for nothing.
func TestIncompleteFile(t *testing.T) {
	for _, format := range formats {
		path := filepath.Join(t.TempDir(), "x")
		f, err := Create(path, format)
		ok(t, err)
		ok(t, f.AddBulk("t").Append(make([]byte, 3*blockBytes)))
		f.Abandon()
		if got, err := readback.Read(path); err == nil {
			t.Errorf("%v: read %v", format, reflect.ValueOf(got).MapKeys())
		}
		if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
			t.Errorf("%v: %v are left", format, names)
		}
	}
}

// What the disk does not take is an error of Close, at the latest.
func TestFullDisk(t *testing.T) {
	for _, format := range formats {
		link := filepath.Join(t.TempDir(), "x")
		ok(t, os.Symlink("/dev/full", link))
		f, err := Create(link, format)
		ok(t, err)
		ok(t, f.AddBulk("t").Append([]byte("few")))
		if err := f.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v: %v", format, err)
		}
	}
}

func TestJoinedCRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOf(rapid.Byte()).Draw(t, "a"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		want := crc32.ChecksumIEEE(slices.Concat(a, b))
		if got := joinedCRC(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), int64(len(b))); got != want {
			t.Fatalf("%08x, want %08x", got, want)
		}
	})
}

// The checksum is that of the superblock and of a header of a file that h5py 3.7 wrote.
func TestChecksumOfHDF5(t *testing.T) {
	superblock := "\x89HDF\r\n\x1a\n\x02\x08\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\x00\x60\x00\x00\x00\x00\x00\x00\x30\x00\x00\x00\x00\x00\x00\x00"
	chunk := "OCHK\x02\x12\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x10\x10\x00" +
		"\x00\xb9\x03\x00\x00\x00\x00\x00\x00\x32\x00\x00\x00\x00\x00\x00\x00"
	for text, want := range map[string]uint32{superblock: 0x85676943, chunk: 0x7d2e7acb, "": 0xDEADBEEF} {
		if got := lookup3([]byte(text)); got != want {
			t.Errorf("%08x, want %08x, of %s", got, want, fmt.Sprintf("%q", text)[:12])
		}
	}
}
