package frames

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"ringlet/source/live"
)

// TestStoreHandsOutWhatCame: whatever sizes come in whatever pieces, and whenever the consumer takes and frees, it gets
// each fragment once, in its order, and its bytes stay until it frees them. Whenever all is free, there is room.
func TestStoreHandsOutWhatCame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStore(256, rapid.IntRange(1, 9).Draw(t, "fragments"))
		var stream []byte // what the front-end sends: a byte of length, and data
		var want, held [][]byte
		var buf [5]live.Fragment
		next, handedOut := byte(0), 0
		parse := func() {
			for s.freeEntries() > 0 {
				w := s.unparsedBytes()
				if len(w) == 0 || len(w) < 1+int(w[0]) {
					break
				}
				n := 1 + int(w[0])
				if n%7 == 3 {
					s.skip(n)
					continue
				}
				want = append(want, bytes.Clone(w[1:n]))
				s.enqueue(live.Fragment{Data: w[1:n]}, n)
			}
			s.publish()
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1: // read
				parse()
				need := 1
				if w := s.unparsedBytes(); len(w) > 0 {
					need = 1 + int(w[0])
				}
				if s.freeEntries() == 0 {
					continue
				}
				space := s.readSpace(need)
				if len(space) == 0 {
					if s.first == s.last {
						t.Fatal("all is free, and there is no room")
					}
					continue
				}
				if len(space)+len(s.unparsedBytes()) < need {
					t.Fatalf("%d bytes and %d, where %d are needed", len(s.unparsedBytes()), len(space), need)
				}
				for len(stream) < len(space) {
					n := rapid.IntRange(0, 63).Draw(t, "size")
					stream = append(stream, byte(n))
					for range n {
						stream = append(stream, next)
						next++
					}
				}
				n := rapid.IntRange(0, len(space)).Draw(t, "read")
				copy(space, stream[:n])
				stream = stream[n:]
				s.commitRead(n)
				parse()
			case 2: // take
				for _, f := range buf[:s.handOut(buf[:rapid.IntRange(0, 5).Draw(t, "most")])] {
					held = append(held, f.Data)
					handedOut++
				}
			case 3: // free
				n := rapid.IntRange(0, len(held)).Draw(t, "free")
				held = held[n:]
				s.freeFragments(n)
			}
			for i, data := range held {
				if !bytes.Equal(data, want[handedOut-len(held)+i]) {
					t.Fatalf("fragment %d is %x, want %x", handedOut-len(held)+i, data, want[handedOut-len(held)+i])
				}
			}
		}
	})
}
