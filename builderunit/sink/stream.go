package sink

// bufferBytes is how many bytes are collected before they are written, so that small MEPs share a system call. It is a
// choice, not a measurement.
const bufferBytes = 1 << 20

// largePiece is the size from which on a piece is not copied into the buffer.
const largePiece = bufferBytes / 4

// stream is the buffer to which an encoder appends. Its first error is final.
type stream struct {
	path   string // for errors
	outlet outlet
	buf    []byte // not handed over yet
	err    error
}

// outlet writes what a stream has collected.
type outlet interface {
	// flushBuffer takes the stream's buffer, and leaves an empty one.
	flushBuffer() error
	// writeLarge writes a large piece after all that flushBuffer took. The stream's buffer is empty.
	writeLarge(p []byte) error
}

func newStream(path string, to outlet) stream {
	return stream{path: path, outlet: to, buf: make([]byte, 0, bufferBytes+largePiece)}
}

// fail makes err final, unless there was an error before.
func (t *stream) fail(op string, err error) error {
	if t.err == nil {
		t.err = wrapError(t.path, op, err)
	}
	return t.err
}

// write appends p: through the buffer if it is small, directly if it is large.
func (t *stream) write(p []byte) error {
	if t.err == nil && len(p) < largePiece {
		t.buf = append(t.buf, p...)
		return t.flushIfFull()
	}
	if err := t.flush(); err != nil {
		return err
	}
	return t.outlet.writeLarge(p)
}

// flushIfFull hands the buffer over if it has bufferBytes.
func (t *stream) flushIfFull() error {
	if len(t.buf) < bufferBytes {
		return t.err
	}
	return t.flush()
}

// flush hands the buffer over.
func (t *stream) flush() error {
	if t.err != nil || len(t.buf) == 0 {
		return t.err
	}
	return t.outlet.flushBuffer()
}
