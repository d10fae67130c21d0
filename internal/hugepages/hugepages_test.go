package hugepages

import "testing"

// TestAdvise: memory of any size and place keeps its content, and is as good as before.
func TestAdvise(t *testing.T) {
	for _, size := range []int{0, 1, minBytes - 1, minBytes, minBytes + 1, 3*minBytes + 4097} {
		all := make([]byte, size+3)
		for from := range 3 {
			mem := all[from : from+size]
			if size > 0 {
				mem[0], mem[size-1] = 1, 2
			}
			if got := Advise(mem); len(got) != size || size > 1 && (got[0] != 1 || got[size-1] != 2) {
				t.Errorf("%d bytes from %d: not the same memory", size, from)
			}
		}
	}
}
