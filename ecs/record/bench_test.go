package record

import (
	"path/filepath"
	"testing"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func BenchmarkNextRun(b *testing.B) {
	benchmark(b, func(s *Store) error { _, err := s.NextRun(nil); return err })
}

func BenchmarkAudit(b *testing.B) {
	benchmark(b, func(s *Store) error { return s.AddAudit(&ecsv1.AuditEntry{User: "alice", Action: "command start"}) })
}

func BenchmarkPut(b *testing.B) { benchmark(b, func(s *Store) error { return s.Put(sample(1)) }) }

func benchmark(b *testing.B, f func(*Store) error) {
	s := must(Open(filepath.Join(b.TempDir(), "runs.db")))(b)
	defer func() { _ = s.Close() }()
	must(s.NextRun(nil))(b)
	for b.Loop() {
		if err := f(s); err != nil {
			b.Fatal(err)
		}
	}
}
