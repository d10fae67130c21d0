package arrays

import "os"

// blockBytes is the size of a block: a reader of HDF5 keeps some in memory, by default 1 MiB for a dataset.
const blockBytes = 256 << 10

// space is a file of which places are given out, one behind the other.
type space struct {
	f   *os.File
	end int64
}

func (s *space) reserve(bytes int) int64 {
	at := s.end
	s.end += int64(bytes)
	return at
}

// blocks are the bytes of an array: blocks of one size in a file, and what is not in the file yet.
type blocks struct {
	in     *space
	size   int     // of a block
	places []int64 // of the blocks in the file
	filled int     // bytes of the last of places that are in the file; 0: all
	buf    []byte  // what follows them; of one block
	total  int64
}

// left is how many bytes the current block can take.
func (b *blocks) left() int { return b.size - b.filled - len(b.buf) }

// append adds bytes.
func (b *blocks) append(p []byte) error {
	b.total += int64(len(p))
	for len(p) > 0 {
		if b.left() == b.size && len(p) >= b.size { // whole blocks, as they are
			n := len(p) / b.size * b.size
			at := b.in.reserve(n)
			for i := 0; i < n; i += b.size {
				b.places = append(b.places, at+int64(i))
			}
			if _, err := b.in.f.WriteAt(p[:n], at); err != nil {
				return err
			}
			p = p[n:]
			continue
		}
		n := min(b.left(), len(p))
		b.buf = append(b.buf, p[:n]...)
		p = p[n:]
		if b.left() == 0 {
			if err := b.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes what is in memory to its place.
func (b *blocks) flush() error {
	if len(b.buf) == 0 {
		return nil
	}
	if b.filled == 0 {
		b.places = append(b.places, b.in.reserve(b.size))
	}
	_, err := b.in.f.WriteAt(b.buf, b.places[len(b.places)-1]+int64(b.filled))
	b.filled = (b.filled + len(b.buf)) % b.size
	b.buf = b.buf[:0]
	return err
}

// finish writes the rest. If there is one block only, its size becomes that of its content: a small file stays small.
func (b *blocks) finish() error {
	if b.total > 0 && b.total < int64(b.size) {
		b.size = int(b.total)
	}
	return b.flush()
}
