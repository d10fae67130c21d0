package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"ringlet/recording"
)

// FileConfig describes a single file to write.
type FileConfig struct {
	Path   string           // destination
	Format recording.Format // no default
	// Overwrite allows to replace a file at Path. Without it an existing file is an error.
	Overwrite bool
}

// File is the sink that writes one file, for tools: MEPs in the order of Write, under a temporary name until Finish.
// Unlike Segments it keeps nothing that is unfinished, so no run records with it.
type File struct {
	cfg       FileConfig
	temp      string // name of the file until Finish
	f         io.WriteCloser
	syncFile  func() error
	outStream stream
	enc       encoder
	result    Result
	closed    bool
}

// NewFile creates the temporary file of c.Path. The error is a *SinkError.
func NewFile(c FileConfig) (*File, error) {
	if !c.Format.Valid() {
		return nil, wrapError(c.Path, "create it", fmt.Errorf("%v is not a format of files", c.Format))
	}
	switch st, err := os.Stat(c.Path); {
	case err == nil && !st.Mode().IsRegular():
		return nil, wrapError(c.Path, "create it", errNotRegular)
	case err == nil && !c.Overwrite:
		return nil, wrapError(c.Path, "create it", ErrExists)
	}
	dir, base := filepath.Split(c.Path)
	for {
		name := filepath.Join(dir, fmt.Sprintf(".%s.ringlet-%08x.part", base, rand.Uint32()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, wrapError(c.Path, "create it", err)
		}
		w := &File{
			cfg:      c,
			temp:     name,
			f:        f,
			syncFile: f.Sync,
			result:   Result{Path: c.Path},
		}
		w.outStream = newStream(c.Path, w)
		return w, nil
	}
}

// Write appends the MEP.
func (w *File) Write(ctx context.Context, m Meta, mep []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.closed {
		return wrapError(w.cfg.Path, "write", errClosed)
	}
	if w.outStream.err != nil {
		return w.outStream.err
	}
	if err := w.enc.write(&w.outStream, w.cfg.Format, m, mep); err != nil {
		return err
	}
	w.result.add(m, 0) // bytes are counted as they are written
	return nil
}

func (w *File) flushBuffer() error {
	err := w.writeLarge(w.outStream.buf)
	w.outStream.buf = w.outStream.buf[:0]
	return err
}

func (w *File) writeLarge(p []byte) error {
	n, err := w.f.Write(p)
	w.result.Bytes += uint64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.outStream.fail("write", err)
	}
	return nil
}

// Flush does nothing: the file is not there before Finish.
func (w *File) Flush() error { return nil }

// Finish gives the file its name. The error is a *SinkError; then a file of that name is as it was, and Abort removes
// the temporary file.
func (w *File) Finish() (Result, error) {
	if w.closed {
		return Result{}, wrapError(w.cfg.Path, "finish", errClosed)
	}
	if err := w.outStream.flush(); err != nil {
		return Result{}, err
	}
	if err := w.syncFile(); err != nil {
		return Result{}, w.outStream.fail("synchronise", err)
	}
	f := w.f
	w.f = nil
	if err := f.Close(); err != nil {
		return Result{}, w.outStream.fail("close", err)
	}
	if err := w.rename(); err != nil {
		return Result{}, w.outStream.fail("rename "+w.temp+" to it", err)
	}
	w.temp, w.closed = "", true
	if err := recording.SyncDir(filepath.Dir(w.cfg.Path)); err != nil {
		return Result{}, wrapError(w.cfg.Path, "synchronise its directory", err)
	}
	return w.result, nil
}

// rename replaces a file at the destination only with Overwrite.
func (w *File) rename() error {
	if w.cfg.Overwrite {
		return os.Rename(w.temp, w.cfg.Path)
	}
	err := recording.RenameNoReplace(w.temp, w.cfg.Path)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	return err
}

// Abort removes the temporary file. After Finish it does nothing.
func (w *File) Abort() error {
	if w.closed {
		return nil
	}
	w.closed = true
	var err error
	if w.f != nil {
		err = w.f.Close()
	}
	if rm := os.Remove(w.temp); !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return wrapError(w.cfg.Path, "remove its temporary file", err)
}
