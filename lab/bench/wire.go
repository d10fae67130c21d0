package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"time"

	"ringlet/node/hostlimits"
)

// The two processes talk over one authenticated connection: the near process sends a request, waits for the answer of
// the far process, and then sends the next one. A message is a JSON object, with the length of the object in bytes
// before it (u32, little-endian). The reader refuses an object with a field that it does not know.

// protocol is the version of these messages. The hello states it, and the far process refuses another version.
const protocol = 1

// maxMessage bounds a message in bytes: the references to maxWindows windows take 44 KiB.
const maxMessage = 1 << 20

// request is one request: exactly one field is set.
type request struct {
	Hello *helloArgs `json:"hello,omitempty"`
	Open  *openArgs  `json:"open,omitempty"`
	Grant *grantArgs `json:"grant,omitempty"`
	Mark  *noArgs    `json:"mark,omitempty"`
	Stop  *stopArgs  `json:"stop,omitempty"`
	Check *noArgs    `json:"check,omitempty"`
	Begin *beginArgs `json:"begin,omitempty"`
	End   *endArgs   `json:"end,omitempty"`
	Close *noArgs    `json:"close,omitempty"`
}

type noArgs struct{}

// helloArgs begin a session: the far process makes its memory.
type helloArgs struct {
	Protocol int    `json:"protocol"`
	Memory   int64  `json:"memory"` // bytes to export
	SpinNs   int64  `json:"spin_ns"`
	Procs    int    `json:"procs"`
	Name     string `json:"name"` // of the near process, as in its certificate
}

// openArgs make an endpoint.
type openArgs struct {
	Carrier string `json:"carrier"`
	View    uint64 `json:"view"`
}

// grantArgs grant windows of one size, side by side.
type grantArgs struct {
	Size    int  `json:"size"`
	Windows int  `json:"windows"`
	Answer  bool `json:"answer"` // answer each write in place with a signal
}

// stopArgs end a measurement: the far process waits until these writes and bytes, counted since the link was opened,
// are in place.
type stopArgs struct {
	Writes uint64 `json:"writes"`
	Bytes  uint64 `json:"bytes"`
}

// beginArgs start the far end of a reference.
type beginArgs struct {
	Reference string `json:"reference"`
}

// endArgs end the far end of a reference.
type endArgs struct {
	Bytes uint64 `json:"bytes"` // bytes that were sent
}

// answer answers a request. If the request failed, only Error is set, with a sentence.
type answer struct {
	Error    string               `json:"error,omitempty"`
	Protocol int                  `json:"protocol,omitempty"`
	Cores    int                  `json:"cores,omitempty"`
	Limits   *hostlimits.Snapshot `json:"limits,omitempty"`
	Addr     string               `json:"addr,omitempty"`
	Refs     []byte               `json:"refs,omitempty"` // of windows: u32 window, u32 generation, little-endian, each
	Sums     []byte               `json:"sums,omitempty"` // of windows: CRC-32C, little-endian, each
	CPUNs    int64                `json:"cpu_ns,omitempty"`
	Writes   uint64               `json:"writes,omitempty"` // in place
	Bytes    uint64               `json:"bytes,omitempty"`  // in place, or received
	Refused  uint64               `json:"refused,omitempty"`
}

// messageError is an invalid message.
type messageError struct{ Why string }

func (e *messageError) Error() string { return "the other process of the bench: " + e.Why }

// farError is an error that the far process returned.
type farError struct{ Why string }

func (e *farError) Error() string { return "the far process: " + e.Why }

// lostError says that the far process does not answer.
type lostError struct{ Cause error }

func (e *lostError) Error() string { return fmt.Sprintf("the far process is lost: %v", e.Cause) }

// Unwrap gives the cause.
func (e *lostError) Unwrap() error { return e.Cause }

// validate checks that exactly one field is set.
func (r *request) validate() error {
	n, v := 0, reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			n++
		}
	}
	if n != 1 {
		return &messageError{fmt.Sprintf("a request has %d fields, not one", n)}
	}
	return nil
}

func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return &messageError{fmt.Sprintf("a message of %d bytes is too long", len(text))}
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func readMessage(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxMessage {
		return &messageError{fmt.Sprintf("it announced a message of %d bytes, more than %d", n, maxMessage)}
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &messageError{"it sent an invalid message: " + err.Error()}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &messageError{"it sent more than one JSON object in a message"}
	}
	return nil
}

// farAnswerTimeout is how long the far process may take to answer; the checksums of the largest memory take a few
// seconds.
const farAnswerTimeout = 60 * time.Second

// callFar sends a request and waits for its answer; the end of ctx ends the session.
func callFar(ctx context.Context, conn net.Conn, r request) (*answer, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := conn.SetDeadline(time.Now().Add(farAnswerTimeout)); err != nil {
		return nil, wrapLost(ctx, err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if err := writeMessage(conn, r); err != nil {
		return nil, wrapLost(ctx, err)
	}
	var a answer
	if err := readMessage(conn, &a); err != nil {
		return nil, wrapLost(ctx, err)
	}
	if a.Error != "" {
		return nil, &farError{a.Error}
	}
	return &a, nil
}

func wrapLost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &lostError{err}
}
