package record

import (
	"testing"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// A store in memory does what one in a file does, and there may be many of them.
func TestOpenMemory(t *testing.T) {
	for range 2 {
		s, err := Open("")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RaiseNextNumber(7); err != nil {
			t.Fatal(err)
		}
		r, err := s.NextRun(&ecsv1.Run{Remark: "first"})
		if err != nil || r.GetNumber() != 7 {
			t.Fatalf("%v: %v", r, err)
		}
		if got, err := s.Get(7); err != nil || got.GetRemark() != "first" {
			t.Errorf("%v: %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
