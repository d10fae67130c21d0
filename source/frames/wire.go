package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"ringlet/event"
	"ringlet/internal/crc32c"
	"ringlet/internal/secret"
	"ringlet/source/live"
)

// The layout of docs/format/frames.md. All numbers are little-endian; sizes are in bytes.
const (
	version1       = 1 // of the format: its end of the run is not acknowledged, and it has no given-up ranges
	currentVersion = 2
	helloMagic     = "RLFH"
	answerMagic    = "RLFA"
	helloSize      = 24 // and the name or the options
	answerSize     = 32 // and the sentence
	answerSize1    = 24 // the same in version 1
	frameSize      = 20 // and the optional words, and the data
	frameMark      = 0x5246
	maxName        = 64
	maxOptions     = 1024
	optionSize     = 4 // and its bytes
	maxSentence    = 512
	anySource      = 0xffff
	noType         = 255 // of a hello without a type
	noEvent        = 1<<64 - 1
	flagUnchecked  = 1 << 0 // the checksum is absent
	flagEnd        = 1 << 1 // end of the run: no data; the event number is the first that never comes
	flagTyped      = 1 << 2 // the frame has its own type in place of the hello's
	flagTrigger    = 1 << 3 // a trigger number follows the header
	flagStamp      = 1 << 4 // a time stamp follows
	flagMessage    = 1 << 5 // no fragment, but a message of the kind in the type's byte; the event number is the ticket
	flagsVersion1  = flagUnchecked | flagEnd | flagTyped
	flagsKnown     = flagsVersion1 | flagTrigger | flagStamp
)

// The kinds of options in a hello.
const (
	optionName     = 1 // of the front-end
	optionSource   = 2 // name of the source
	optionSecret   = 3 // the front-end has a secret: its nonce
	optionFollow   = 4 // the front-end follows the run: it hears commands and answers them
	optionRequired = 1 << 15
)

// answerCode says what an answer means.
type answerCode uint8

const (
	codeAccepted     answerCode = iota // frames may follow
	codeAcknowledged                   // all events below have their outcome
	codeBadVersion                     // refusals: the connection ends after the sentence
	codeBadSource
	codeBadRun
	codeBusy
	codeBadFormat
	codeGivenUp     // fragments are in no file of this run
	codeEndReceived // Ringlet has received the end of the run
	codeCommand     // to a front-end that follows the run: what it is told
	codeProofWanted // the front-end must prove that it has the secret
	codeSource      // to a front-end that follows the run: the source's id and name
	codeConfig      // to it, too: a piece of its part of the configuration
	codeUnitBusy    // to it, too: whether the readout unit is busy
)

// Messages by which a front-end says whether it is busy; those below are live.Reply.
const (
	messageBusy = 4
	messageFree = 5
)

// Reasons in a codeGivenUp answer.
const (
	reasonSeveral = iota // several reasons in one range
	reasonLate
	reasonRepeat
	reasonBackwards
	reasonJump
	reasonLeftOver
)

var reasonWords = [...]string{
	reasonSeveral: "are in no file of this run, for several reasons",
	reasonLate:    "are in no file of this run: they came too late, and their events were built without them",
	reasonRepeat:  "were thrown away: their events have a fragment of this source already",
	reasonBackwards: "were thrown away: their numbers run backwards, or are below the one from which Ringlet " +
		"asked to send",
	reasonJump:     "were thrown away: their numbers are far from those around them",
	reasonLeftOver: "are in no file of this run: it ended before they were built",
}

// faultReason returns the format's number for the reason why a fragment was given up.
func faultReason(why live.Fault) uint32 {
	switch why {
	case live.FaultLate:
		return reasonLate
	case live.FaultRepeat:
		return reasonRepeat
	case live.FaultBackwards:
		return reasonBackwards
	case live.FaultJump:
		return reasonJump
	}
	return reasonLeftOver
}

// hello is the first message of a front-end.
type hello struct {
	Version          uint8
	Type             uint8 // bank type; noType: none given
	Source           uint16
	Run              uint64 // 0: any
	Name             string
	MaxFragmentBytes uint32 // bytes of the largest fragment that it will send; 0: unknown
	SourceName       string // how the front-end calls its source
	HasSecret        bool   // it can prove that it has a secret
	Follows          bool   // it follows the run
}

// answer is any message from Ringlet to a front-end. Code decides what A to D mean (docs/format/frames.md).
type answer struct {
	Code     answerCode
	A, B     uint64
	C, D     uint32
	Sentence string
}

// frame is one received fragment, or the end of the run.
type frame struct {
	Event    uint64
	Flags    uint8
	Type     uint8
	optional int    // bytes of optional words
	Data     []byte // in the memory that was parsed
	event.Words
}

func (f *frame) size() int { return frameSize + f.optional + len(f.Data) }

// errMoreBytesNeeded says that a hello or a frame is incomplete in the bytes so far.
var errMoreBytesNeeded = errors.New("more bytes are needed")

// formatError says how a front-end breaks the format.
type formatError struct{ What string }

func (e *formatError) Error() string {
	return e.What + ": the front-end breaks the format of docs/format/frames.md"
}

// formatErrorf makes a formatError.
func formatErrorf(format string, args ...any) error {
	return &formatError{fmt.Sprintf(format, args...)}
}

// parseHello reads a hello from the beginning of b, and returns its size; errMoreBytesNeeded if it goes on after b. Of
// a hello of another version it reads only what all versions have alike, up to the version. It returns the version
// even with an error.
func parseHello(b []byte) (hello, int, error) {
	if n := min(len(b), len(helloMagic)); string(b[:n]) != helloMagic[:n] {
		return hello{}, 0, formatErrorf("a hello begins with %q, not with %q", helloMagic, b[:n])
	}
	if len(b) > 4 && b[4] != version1 && b[4] != currentVersion {
		return hello{Version: b[4]}, 0, nil
	}
	if len(b) < helloSize {
		return hello{}, 0, errMoreBytesNeeded
	}
	h := hello{
		Version: b[4],
		Type:    b[5],
		Source:  binary.LittleEndian.Uint16(b[6:]),
		Run:     binary.LittleEndian.Uint64(b[8:]),
	}
	n, err := helloTailSize(b)
	switch {
	case err != nil:
		return h, 0, err
	case len(b) < helloSize+n:
		return h, 0, errMoreBytesNeeded
	case h.Version == version1:
		h.Name = string(b[helloSize : helloSize+n])
		return h, helloSize + n, nil
	}
	h.MaxFragmentBytes = binary.LittleEndian.Uint32(b[20:])
	return h, helloSize + n, h.options(b[helloSize : helloSize+n])
}

// helloTailSize returns how many bytes follow the head of a hello.
func helloTailSize(b []byte) (int, error) {
	if b[4] == version1 {
		n := int(b[16])
		if n > maxName {
			return 0, formatErrorf("a hello has a name of %d bytes, %d are the most", n, maxName)
		}
		if binary.LittleEndian.Uint32(b[16:])>>8 != 0 || binary.LittleEndian.Uint32(b[20:]) != 0 {
			return 0, formatErrorf("bytes 17 to 23 of a hello are not zero")
		}
		return n, nil
	}
	n := int(binary.LittleEndian.Uint16(b[16:]))
	if n > maxOptions {
		return 0, formatErrorf("a hello has options of %d bytes, %d are the most", n, maxOptions)
	}
	if binary.LittleEndian.Uint16(b[18:]) != 0 {
		return 0, formatErrorf("bytes 18 and 19 of a hello are not zero")
	}
	return n, nil
}

// options reads the options of a hello of version 2.
func (h *hello) options(b []byte) error {
	var seen [optionFollow + 1]bool
	for len(b) > 0 {
		if len(b) < optionSize {
			return formatErrorf("the options of a hello end within one")
		}
		kind, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		b = b[optionSize:]
		if n > len(b) {
			return formatErrorf("option %d of a hello has %d bytes, and %d are there", kind, n, len(b))
		}
		what := b[:n]
		b = b[n:]
		required := kind&optionRequired != 0
		if kind &^= optionRequired; int(kind) < len(seen) {
			if seen[kind] {
				return formatErrorf("option %d of a hello comes twice", kind)
			}
			seen[kind] = true
		}
		switch {
		case kind == optionName || kind == optionSource:
			if n == 0 || n > maxName || !utf8.Valid(what) {
				return formatErrorf("option %d of a hello, a name, has %d bytes: it must be UTF-8 of 1 to %d bytes", kind, n,
					maxName)
			}
			if kind == optionName {
				h.Name = string(what)
			} else {
				h.SourceName = string(what)
			}
		case kind == optionSecret && n > secret.MaxSize:
			return formatErrorf("option %d of a hello has %d bytes, %d are the most", kind, n, secret.MaxSize)
		case kind == optionSecret:
			h.HasSecret = n >= minNonce
		case kind == optionFollow:
			h.Follows = true
		case required && (kind == 0 || int(kind) >= len(seen)):
			return formatErrorf("option %#x of a hello is unknown to this Ringlet, and the front-end says that it cannot do "+
				"without it", kind|optionRequired)
		}
	}
	return nil
}

// appendAnswer appends an answer in a version of the format to dst. It cuts a sentence that is too long. The caller
// must not pass a code that the version does not have.
func appendAnswer(dst []byte, version uint8, a answer) []byte {
	sentence := truncateSentence(a.Sentence)
	dst = append(dst, answerMagic...)
	dst = append(dst, version, byte(a.Code))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(sentence)))
	dst = binary.LittleEndian.AppendUint64(dst, a.A)
	if version > version1 {
		dst = binary.LittleEndian.AppendUint64(dst, a.B)
	}
	dst = binary.LittleEndian.AppendUint32(dst, a.C)
	dst = binary.LittleEndian.AppendUint32(dst, a.D)
	return append(dst, sentence...)
}

// truncateSentence cuts a sentence to the length that an answer can have, in whole characters.
func truncateSentence(sentence string) string {
	if len(sentence) <= maxSentence {
		return sentence
	}
	n := maxSentence
	for n > maxSentence-utf8.UTFMax && !utf8.RuneStart(sentence[n]) {
		n--
	}
	return sentence[:n]
}

// optionalBytes returns how many bytes of optional words the flags announce.
func optionalBytes(flags uint8) int {
	n := 0
	if flags&flagTrigger != 0 {
		n += 8
	}
	if flags&flagStamp != 0 {
		n += 8
	}
	return n
}

// setWords takes over the optional words, which the flags announce.
func (f *frame) setWords(b []byte) {
	if f.Flags&flagTrigger != 0 {
		f.HasTrigger, f.Trigger = true, binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	if f.Flags&flagStamp != 0 {
		f.HasStamp, f.Stamp = true, binary.LittleEndian.Uint64(b)
	}
}

// frameBytesNeeded returns the size in bytes of the frame that b begins with, as far as b tells it; most is the size of
// the largest fragment.
func frameBytesNeeded(b []byte, most int) int {
	if len(b) < frameSize {
		return frameSize
	}
	return frameSize + optionalBytes(b[12]) + int(min(uint64(binary.LittleEndian.Uint32(b[8:])), uint64(most)))
}

// parseFrame reads a frame from the beginning of b into f; errMoreBytesNeeded if it goes on after b. It refuses a
// header that breaks the format before the data have come. known are the flags of the connection's version, and most is
// the size of the largest fragment.
func parseFrame(f *frame, b []byte, known uint8, most int) error {
	if len(b) < frameSize {
		return errMoreBytesNeeded
	}
	size := binary.LittleEndian.Uint32(b[8:])
	*f = frame{Event: binary.LittleEndian.Uint64(b), Flags: b[12], Type: b[13], optional: optionalBytes(b[12])}
	switch mark := binary.LittleEndian.Uint16(b[14:]); {
	case mark != frameMark:
		return formatErrorf("a frame has the mark %#04x and not %#04x", mark, frameMark)
	case f.Flags&^known != 0:
		return formatErrorf("the frame of event %d has unknown flags, %#02x", f.Event, f.Flags)
	case uint64(size) > uint64(most):
		return formatErrorf("the fragment of event %d has %d bytes, %d are the most: put ?max=%d or more behind the address "+
			"of the input", f.Event, size, most, size)
	case f.Event == noEvent:
		return formatErrorf("%d is no event number", f.Event)
	case f.Flags&flagMessage != 0 && (f.Flags&^(flagMessage|flagUnchecked) != 0 || size > maxSentence):
		return formatErrorf("a message has the flags %#02x and %d bytes: it has no other flag but %#02x, and at most %d "+
			"bytes", f.Flags, size, flagUnchecked, maxSentence)
	case f.Flags&flagEnd != 0 && size != 0:
		return formatErrorf("the end of the run, at event %d, has %d bytes of data", f.Event, size)
	}
	at := frameSize + f.optional
	if len(b) < at+int(size) {
		return errMoreBytesNeeded
	}
	f.Data = b[at : at+int(size) : at+int(size)]
	f.setWords(b[frameSize:at])
	want := binary.LittleEndian.Uint32(b[16:])
	if f.Flags&flagUnchecked != 0 {
		if want != 0 {
			return formatErrorf("the frame of event %d has a checksum and says that it has none", f.Event)
		}
		return nil
	}
	if sum := crc32c.Add(crc32c.Sum(b[:16]), b[frameSize:at+int(size)]); sum != want {
		return formatErrorf("the fragment of event %d has the checksum %08x, but the frame says %08x: it changed on the way",
			f.Event, sum, want)
	}
	return nil
}
