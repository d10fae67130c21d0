package event

import "testing"

// TestPutMissingMFP holds that what is written for a source that gave nothing parses as a packet without data.
func TestPutMissingMFP(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 1000} {
		dst := make([]byte, MFPHeaderSize(n)+5)
		for i := range dst {
			dst[i] = 0xff
		}
		m, err := ParseMFP(PutMissingMFP(dst, 77, 900, n))
		if err != nil || m.NumFragments() != n || m.Source() != 77 || m.FirstEvent() != 900 {
			t.Fatalf("%d fragments: %+v, %v", n, m, err)
		}
		for i := range n {
			if m.FragmentType(i) != FragmentMissing {
				t.Errorf("fragment %d of %d is %v", i, n, m.FragmentType(i))
			}
		}
		for i, fragment := range m.Fragments() {
			if len(fragment) != 0 {
				t.Errorf("fragment %d of %d has %d bytes", i, n, len(fragment))
			}
		}
	}
}
