package output

import (
	"bufio"
	"encoding/base64"
	"errors"
	"os"
	"strconv"

	"ringlet/convert/input"
)

// lines writes a JSON object a row.
type lines struct {
	f   *os.File
	w   *bufio.Writer
	buf []byte
}

func openLines(path, _, _ string) (File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &lines{f: f, w: bufio.NewWriterSize(f, 256<<10)}, nil
}

// Write adds a line.
func (l *lines) Write(r *input.Row) error {
	b := l.buf[:0]
	number := func(name string, n uint64) {
		b = append(b, name...)
		b = strconv.AppendUint(b, n, 10)
	}
	number(`{"run":`, uint64(r.Run))
	number(`,"event":`, r.Event)
	number(`,"orbit":`, uint64(r.Orbit))
	number(`,"bunch":`, uint64(r.Bunch))
	number(`,"source":`, uint64(r.Source))
	number(`,"type":`, uint64(r.Type))
	number(`,"version":`, uint64(r.Version))
	b = append(b, `,"missing":`...)
	b = strconv.AppendBool(b, r.Missing())
	number(`,"size":`, uint64(len(r.Data)))
	if r.HasTrigger {
		number(`,"trigger":`, r.Trigger)
	}
	if r.HasStamp {
		number(`,"stamp":`, r.Stamp)
	}
	b = append(b, `,"data":"`...)
	b = base64.StdEncoding.AppendEncode(b, r.Data)
	b = append(b, "\"}\n"...)
	l.buf = b
	_, err := l.w.Write(b)
	return written(l.f.Name(), err)
}

// Buffered is 0: the buffer is small.
func (l *lines) Buffered() int { return 0 }

// Flush writes the buffer.
func (l *lines) Flush() error { return written(l.f.Name(), l.w.Flush()) }

// Close completes the file and syncs it.
func (l *lines) Close() error {
	err := l.w.Flush()
	if err == nil {
		err = l.f.Sync()
	}
	return written(l.f.Name(), errors.Join(err, l.f.Close()))
}

// Abandon closes the incomplete file.
func (l *lines) Abandon() { _ = l.f.Close() }
