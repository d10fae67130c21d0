package sink

// bufferBytes is how much is gathered before it is written, so that small MEPs share a system call. A choice, not a
// measurement.
const bufferBytes = 1 << 20

// largePiece is what is not worth copying into the buffer.
const largePiece = bufferBytes / 4

// stream is what an encoder appends to. Its first error is final.
type stream struct {
	path   string // for errors
	outlet outlet
	buf    []byte // not yet handed over
	err    error
}

// outlet takes what a stream has gathered.
type outlet interface {
	// flushBuffer takes the stream's buffer, and leaves an empty one in its place.
	flushBuffer() error
	// writeLarge takes a large piece, behind all that flushBuffer took. The stream's buffer is empty.
	writeLarge(p []byte) error
}

func newStream(path string, to outlet) stream {
	return stream{path: path, outlet: to, buf: make([]byte, 0, bufferBytes+largePiece)}
}

// fail makes err final.
func (t *stream) fail(op string, err error) error {
	if t.err == nil {
		t.err = wrapError(t.path, op, err)
	}
	return t.err
}

// write appends p: through the buffer if it is small, straight if it is not.
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

// flushIfFull hands the buffer over when it has become large.
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
