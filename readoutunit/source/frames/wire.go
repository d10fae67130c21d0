package frames

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ringlet/event"
	"ringlet/internal/crc32c"
)

// The bytes of docs/format/frames.md. All numbers are little-endian.
const (
	version       = 1
	helloMagic    = "RLFH"
	answerMagic   = "RLFA"
	helloSize     = 24 // and the name
	answerSize    = 24 // and the sentence
	frameSize     = 20 // and the data
	frameMark     = 0x5246
	maxName       = 64
	maxSentence   = 512
	anySource     = 0xffff
	noType        = 255 // of a hello that says none
	noEvent       = 1<<64 - 1
	flagUnchecked = 1 << 0 // the checksum is absent
	flagEnd       = 1 << 1 // end of the run: no data; the event number is the first that never comes
	flagTyped     = 1 << 2 // the type is that of this fragment, not the hello's
	flagsKnown    = flagUnchecked | flagEnd | flagTyped
)

// code is what an answer says.
type code uint8

const (
	accepted     code = iota // frames may follow; the event is where to resume
	acknowledged             // all events below the event are safe
	badVersion               // refusals: the connection ends behind the sentence
	badSource
	badRun
	busy
	badFormat
)

// hello is how a front-end begins.
type hello struct {
	Version uint8
	Type    uint8 // bank type; noType: says none
	Source  uint16
	Run     uint64 // 0: any
	Name    string
}

// answer is all that Ringlet says to a front-end.
type answer struct {
	Code     code
	Event    uint64
	Window   uint32 // bytes that Ringlet takes in before it has handed out any
	Largest  uint32 // bytes of the largest fragment
	Sentence string // of a refusal
}

// frame is one fragment as it came, or the end of the run.
type frame struct {
	Event uint64
	Flags uint8
	Type  uint8
	Data  []byte // in the memory that was parsed
}

func (f *frame) size() int { return frameSize + len(f.Data) }

// errShort says that more bytes are needed than are there.
var errShort = errors.New("more bytes are needed")

// formatError is what breaks the format.
type formatError struct{ What string }

func (e *formatError) Error() string {
	return e.What + ": the front-end breaks the format of docs/format/frames.md"
}

// parseHello reads a hello from the beginning of b, and says its size; errShort if it goes on behind b. A hello of
// another version is read as far as all versions agree: up to the version.
func parseHello(b []byte) (hello, int, error) {
	if n := min(len(b), len(helloMagic)); string(b[:n]) != helloMagic[:n] {
		return hello{}, 0, &formatError{fmt.Sprintf("a hello begins with %q, not with %q", helloMagic, b[:n])}
	}
	if len(b) > 4 && b[4] != version {
		return hello{Version: b[4]}, 0, nil
	}
	if len(b) < helloSize {
		return hello{}, 0, errShort
	}
	n := int(b[16])
	if n > maxName {
		return hello{}, 0, &formatError{fmt.Sprintf("a hello has a name of %d bytes, %d are the most", n, maxName)}
	}
	if binary.LittleEndian.Uint32(b[16:])>>8 != 0 || binary.LittleEndian.Uint32(b[20:]) != 0 {
		return hello{}, 0, &formatError{"bytes 17 to 23 of a hello are not zero"}
	}
	if len(b) < helloSize+n {
		return hello{}, 0, errShort
	}
	return hello{
		Version: b[4],
		Type:    b[5],
		Source:  binary.LittleEndian.Uint16(b[6:]),
		Run:     binary.LittleEndian.Uint64(b[8:]),
		Name:    string(b[helloSize : helloSize+n]),
	}, helloSize + n, nil
}

// appendAnswer appends an answer to dst. A longer sentence is cut.
func appendAnswer(dst []byte, a answer) []byte {
	sentence := a.Sentence[:min(len(a.Sentence), maxSentence)]
	dst = append(dst, answerMagic...)
	dst = append(dst, version, byte(a.Code))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(sentence)))
	dst = binary.LittleEndian.AppendUint64(dst, a.Event)
	dst = binary.LittleEndian.AppendUint32(dst, a.Window)
	dst = binary.LittleEndian.AppendUint32(dst, a.Largest)
	return append(dst, sentence...)
}

// need is how many bytes must be there for a frame of which b is the beginning.
func need(b []byte) int {
	if len(b) < frameSize {
		return frameSize
	}
	return frameSize + int(min(binary.LittleEndian.Uint32(b[8:]), event.MaxFragment))
}

// parseFrame reads a frame from the beginning of b into f; errShort if it goes on behind b. A header that breaks the
// format is refused before its data are there.
func parseFrame(f *frame, b []byte) error {
	if len(b) < frameSize {
		return errShort
	}
	size := binary.LittleEndian.Uint32(b[8:])
	*f = frame{Event: binary.LittleEndian.Uint64(b), Flags: b[12], Type: b[13]}
	switch mark := binary.LittleEndian.Uint16(b[14:]); {
	case mark != frameMark:
		return &formatError{fmt.Sprintf("a frame has the mark %#04x and not %#04x", mark, frameMark)}
	case f.Flags&^flagsKnown != 0:
		return &formatError{fmt.Sprintf("the frame of event %d has unknown flags, %#02x", f.Event, f.Flags)}
	case size > event.MaxFragment:
		return &formatError{fmt.Sprintf("the fragment of event %d has %d bytes, %d are the most", f.Event, size,
			event.MaxFragment)}
	case f.Event == noEvent:
		return &formatError{fmt.Sprintf("%d is no event number", f.Event)}
	case f.Flags&flagEnd != 0 && size != 0:
		return &formatError{fmt.Sprintf("the end of the run, at event %d, has %d bytes of data", f.Event, size)}
	}
	if len(b) < frameSize+int(size) {
		return errShort
	}
	f.Data = b[frameSize : frameSize+size : frameSize+size]
	want := binary.LittleEndian.Uint32(b[16:])
	if f.Flags&flagUnchecked != 0 {
		if want != 0 {
			return &formatError{fmt.Sprintf("the frame of event %d has a checksum and says that it has none", f.Event)}
		}
		return nil
	}
	if sum := crc32c.Add(crc32c.Sum(b[:16]), f.Data); sum != want {
		return &formatError{fmt.Sprintf("the fragment of event %d has the checksum %08x, but the frame says %08x: "+
			"it changed on the way", f.Event, sum, want)}
	}
	return nil
}
