package record

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// filled is a store with three runs, the first closed, with events, audit and memory.
func filled(t *testing.T) *Store {
	t.Helper()
	s := newStore(t)
	for n := range uint32(3) {
		must(s.NextRun(nil))(t)
		for _, err := range []error{
			s.AddEvent(n+1, &ecsv1.Event{Text: "one"}, &ecsv1.Event{Text: "two"}), s.Put(sample(n + 1)),
			s.AddAudit(&ecsv1.AuditEntry{Action: "x"}), s.Remember("view", []byte("4")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Put(closed(sample(1))); err != nil {
		t.Fatal(err)
	}
	return s
}

// spoil changes a value of a bucket.
func spoil(t *testing.T, s *Store, bucket, within, key []byte, change func(v []byte) []byte) {
	t.Helper()
	if err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		if within != nil {
			b = b.Bucket(within)
		}
		return b.Put(key, change(bytes.Clone(b.Get(key))))
	}); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedValueIsNamedAndHurtsNoOther(t *testing.T) {
	flip := func(v []byte) []byte { v[len(v)-1] ^= 1; return v }
	for name, tc := range map[string]struct {
		spoil func(*testing.T, *Store)
		what  string // of the error of Get(2)
		list  int    // runs that are listed
		event string // that Get(2) shows instead
	}{
		"summary": {func(t *testing.T, s *Store) { spoil(t, s, bucketRuns, nil, runKey(2), flip) }, "the summary of run 2", 2,
			""},
		"details": {func(t *testing.T, s *Store) { spoil(t, s, bucketDetails, nil, runKey(2), flip) }, "the details of run 2",
			3, ""},
		"cut short": {func(t *testing.T, s *Store) {
			spoil(t, s, bucketRuns, nil, runKey(2), func([]byte) []byte { return nil })
		}, "fewer than its envelope", 2, ""},
		"new version": {func(t *testing.T, s *Store) {
			spoil(t, s, bucketRuns, nil, runKey(2), func(v []byte) []byte { v[0] = 2; return v })
		}, "version 2", 2, ""},
		"elsewhere": {func(t *testing.T, s *Store) {
			var other []byte
			spoil(t, s, bucketRuns, nil, runKey(1), func(v []byte) []byte { other = bytes.Clone(v); return v })
			spoil(t, s, bucketRuns, nil, runKey(2), func([]byte) []byte { return other })
		}, "checksum", 2, ""},
		"no protobuf": {func(t *testing.T, s *Store) {
			spoil(t, s, bucketRuns, nil, runKey(2), func([]byte) []byte {
				return sealValue(kindSummary, runKey(2),
					[]byte{0xff})
			})
		}, "the summary of run 2", 2, ""},
		"event": {func(t *testing.T, s *Store) { spoil(t, s, bucketEvents, runKey(2), sequenceKey(1), flip) }, "", 3,
			"event 1 of this run is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			s := filled(t)
			tc.spoil(t, s)
			var log bytes.Buffer
			s.SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
			r, err := s.Get(2)
			switch damaged := new(DamagedError); {
			case tc.what == "":
				if err != nil || len(r.Events) != 2 || !strings.Contains(r.Events[0].Text, tc.event) {
					t.Errorf("run 2 is %v, %v", r, err)
				}
			case !errors.As(err, &damaged) || !strings.Contains(err.Error(), tc.what):
				t.Errorf("run 2: %v, want %q", err, tc.what)
			}
			if l := must(s.List(0, 10))(t); len(l.Runs) != tc.list || len(l.Damaged) != 3-tc.list {
				t.Errorf("list: %+v", l)
			}
			if l := must(s.OpenRuns())(t); len(l.Runs) != tc.list-1 || len(l.Damaged) != 3-tc.list {
				t.Errorf("open runs: %+v", l)
			}
			must(s.Get(3))(t)
			if r := must(s.NextRun(nil))(t); r.GetNumber() != 4 {
				t.Errorf("the next run is %d", r.GetNumber())
			}
			if lines := strings.Count(log.String(), "\n"); tc.what != "" &&
				(lines != 1 || !strings.Contains(log.String(), "run 2")) {
				t.Errorf("the log has %q", &log)
			}
		})
	}
}

func TestADamagedEntryAndMemoryAreNamed(t *testing.T) {
	s := filled(t)
	flip := func(v []byte) []byte { v[len(v)-1] ^= 1; return v }
	spoil(t, s, bucketAudit, nil, sequenceKey(2), flip)
	spoil(t, s, bucketMemory, nil, []byte("view"), flip)
	if l := must(s.ListAudit(9))(t); len(l) != 3 || !strings.Contains(l[1].Answer, "damaged") || l[0].Action != "x" {
		t.Errorf("audit: %v", l)
	}
	var damaged *DamagedError
	if _, err := s.Recall("view"); !errors.As(err, &damaged) {
		t.Errorf("recall: %v", err)
	}
}

// No file makes the program panic, whatever is in it: it is refused, or what is damaged is named.
func TestAnyFileIsTolerated(t *testing.T) {
	s := filled(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good := must(os.ReadFile(s.Path()))(t)
	page := os.Getpagesize()
	files := map[string][]byte{"empty file": {}, "text": []byte(strings.Repeat("no records\n", 2000)),
		"zeroes": make([]byte, len(good))}
	for n := page / 2; n < len(good); n += page {
		files["cut after "+string(rune('0'+n/page))+" pages and a half"] = good[:n]
	}
	random := rand.New(rand.NewPCG(1, 2))
	for p := range len(good) / page {
		spoilt := bytes.Clone(good)
		for i := range page {
			spoilt[p*page+i] = byte(random.Uint32())
		}
		files["page "+string(rune('0'+p))+" overwritten"] = spoilt
	}
	for name, content := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(path)
			if err != nil {
				if !strings.Contains(err.Error(), path) {
					t.Errorf("refused without its name: %v", err)
				}
				return
			}
			useAll(s)
			_ = s.Close()
		})
	}
}

// useAll calls everything, and leaves it to the runtime to complain.
func useAll(s *Store) {
	for n := range uint32(4) {
		_, _ = s.Get(n)
		_ = s.Put(sample(n))
		_ = s.AddEvent(n, &ecsv1.Event{})
	}
	_, _ = s.List(0, 10)
	_, _ = s.OpenRuns()
	_, _ = s.Latest()
	_, _ = s.ListAudit(10)
	_, _ = s.Recall("view")
	_, _ = s.NextRun(nil)
}

func TestOpenRefusesWhatIsSomethingElse(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	db := must(bbolt.Open(other, 0o600, nil))(t)
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()

	newer := newStore(t)
	spoil(t, newer, bucketFormat, nil, keyMagic, func([]byte) []byte { return []byte("RNGLREC\x02") })
	_ = newer.Close()

	for path, what := range map[string]string{other: "something else", newer.Path(): "layout", dir: "no regular file"} {
		var foreign *foreignError
		if _, err := Open(path); !errors.As(err, &foreign) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, want %q", path, err, what)
		}
	}
}

func FuzzDecode(f *testing.F) {
	key := runKey(7)
	good, err := encode(kindSummary, key, sample(7))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(key, good)
	f.Add(key, good[:envelopeSize])
	f.Add([]byte{}, []byte{1, 1, 0, 0})
	f.Add(key, sealValue(kindSummary, key, []byte{0x08, 0xff}))
	f.Fuzz(func(t *testing.T, key, v []byte) {
		payload, err := openValue(kindSummary, key, v)
		if err != nil {
			return
		}
		if again := sealValue(kindSummary, key, payload); !bytes.Equal(again, v) {
			t.Errorf("%x is taken, and sealed again is %x", v, again)
		}
		r := &ecsv1.Run{}
		if decode(kindSummary, key, v, r) != nil {
			return
		}
		again, err := encode(kindSummary, key, r)
		if err != nil {
			t.Fatal(err)
		}
		back := &ecsv1.Run{}
		if err := decode(kindSummary, key, again, back); err != nil || !proto.Equal(r, back) {
			t.Errorf("%v comes back as %v, %v", r, back, err)
		}
	})
}
