package sink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// bufferBytes is how much is gathered before it is written, so that small MEPs share a system call. A choice, not a measurement.
const bufferBytes = 1 << 20

const tempInfix, tempSuffix = ".ringlet-", ".part"

// storage is what a tempFile needs of a file; tests put a full disk behind it.
type storage interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Sync() error
}

// tempFile is a file under a temporary name, written through a buffer. Its first error is final.
type tempFile struct {
	dst  string // what it is to become
	name string // what it is called
	f    storage
	buf  []byte // not yet written
	size int64  // bytes written, without buf
	err  error

	written *atomic.Uint64 // counts them together with those of other files; nil: nobody does
}

// createTemp makes the temporary file of dst, in its directory, with the permissions a new file gets.
func createTemp(dst string) (*tempFile, error) {
	if st, err := os.Stat(dst); err == nil && !st.Mode().IsRegular() {
		return nil, &SinkError{Path: dst, Op: "create it", Cause: ErrNotRegular}
	}
	dir, base := filepath.Split(dst)
	for {
		name := filepath.Join(dir, fmt.Sprintf(".%s%s%08x%s", base, tempInfix, rand.Uint32(), tempSuffix))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, &SinkError{Path: dst, Op: "create it", Cause: err}
		}
		return &tempFile{dst: dst, name: name, f: f, buf: make([]byte, 0, bufferBytes+bufferBytes/4)}, nil
	}
}

// RemoveTemporaries removes what killed processes left of outputs to dst, and returns their names. No process may be writing
// to dst at the time.
func RemoveTemporaries(dst string) (removed []string, err error) {
	dir, base := filepath.Split(dst)
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, &SinkError{Path: dst, Op: "look for temporary files", Cause: err}
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, "."+base+tempInfix) || !strings.HasSuffix(strings.TrimSuffix(name, indexSuffix), tempSuffix) {
			continue
		}
		path := filepath.Join(dir, name)
		if rmErr := os.Remove(path); rmErr != nil {
			err = errors.Join(err, &SinkError{Path: path, Op: "remove it", Cause: rmErr})
			continue
		}
		removed = append(removed, path)
	}
	return removed, err
}

// end is the offset at which the next byte will stand.
func (t *tempFile) end() int64 { return t.size + int64(len(t.buf)) }

// fail makes err final.
func (t *tempFile) fail(op string, err error) error {
	if t.err == nil {
		t.err = &SinkError{Path: t.dst, Op: op, Cause: err}
	}
	return t.err
}

// write appends p: through the buffer if it is small, straight if it is not.
func (t *tempFile) write(p []byte) error {
	if t.err == nil && len(p) < bufferBytes/4 {
		t.buf = append(t.buf, p...)
		return t.drain()
	}
	if err := t.flush(); err != nil {
		return err
	}
	return t.put(p)
}

// drain writes the buffer when it has become large.
func (t *tempFile) drain() error {
	if len(t.buf) < bufferBytes {
		return t.err
	}
	return t.flush()
}

// flush writes the buffer.
func (t *tempFile) flush() error {
	if err := t.put(t.buf); err != nil {
		return err
	}
	t.buf = t.buf[:0]
	return nil
}

func (t *tempFile) put(p []byte) error {
	if t.err != nil || len(p) == 0 {
		return t.err
	}
	n, err := t.f.Write(p)
	t.size += int64(n)
	if t.written != nil {
		t.written.Add(uint64(n))
	}
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return t.fail("write", err)
	}
	return nil
}

// commit makes the file durable and gives it its name.
func (t *tempFile) commit() error {
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.f.Sync(); err != nil {
		return t.fail("synchronise", err)
	}
	if err := t.f.Close(); err != nil {
		t.f = nil
		return t.fail("close", err)
	}
	t.f = nil
	if err := os.Rename(t.name, t.dst); err != nil {
		return t.fail("rename "+t.name+" to it", err)
	}
	t.name = ""
	return syncDir(filepath.Dir(t.dst))
}

// remove closes the file and removes it, unless it has got its name.
func (t *tempFile) remove() error {
	var err error
	if t.f != nil {
		err = t.f.Close()
		t.f = nil
	}
	if t.name != "" {
		rm := os.Remove(t.name)
		if errors.Is(rm, fs.ErrNotExist) {
			rm = nil
		}
		err = errors.Join(err, rm)
		t.name = ""
	}
	if err != nil {
		return &SinkError{Path: t.dst, Op: "remove its temporary file", Cause: err}
	}
	return nil
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return &SinkError{Path: dir, Op: "synchronise the directory", Cause: err}
	}
	return nil
}
