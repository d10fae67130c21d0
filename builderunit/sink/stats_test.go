package sink

import (
	"reflect"
	"testing"
)

// The counters of several outputs are summed, each with its own kind and none forgotten.
func TestCountersOfOutputsAreSummed(t *testing.T) {
	sums[SegmentsStats](t, (*SegmentsStats).Add)
	sums[BufferStats](t, (*BufferStats).Add)
	sums[DatagramStats](t, (*DatagramStats).Add)
}

func sums[T any](t *testing.T, add func(*T, T)) {
	t.Helper()
	var a, b, want T
	for i := range reflect.TypeFor[T]().NumField() {
		setField(&a, i, int64(i+1))
		setField(&b, i, int64(100*(i+1)))
		setField(&want, i, int64(101*(i+1)))
	}
	if add(&a, b); !reflect.DeepEqual(a, want) {
		t.Errorf("%T: %+v, not %+v", a, a, want)
	}
}

// setField sets a counter.
func setField[T any](s *T, field int, to int64) {
	f := reflect.ValueOf(s).Elem().Field(field)
	f.Set(reflect.ValueOf(to).Convert(f.Type()))
}
