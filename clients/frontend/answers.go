package frontend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// The answers of docs/format/frames.md, version 2.
const (
	streamVersion  = 2
	answerHeadSize = 24 // bytes of an answer of version 1
	answerRestSize = 8
	maxSentence    = 512

	codeAccepted = 0
	codeOutcome  = 1
	codeGivenUp  = 7
	codeEnd      = 8
)

// answer is one answer of a readout unit.
type answer struct {
	code uint8
	a, b uint64
	c, d uint32
	text string
}

// handshake connects, sends the hello, proves the secret if there is one, and handles the answer.
func (s *Stream) handshake(ctx context.Context) (conn, error) {
	c, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	var a answer
	hello := s.hello()
	if _, err = c.Write(hello); err == nil {
		a, err = readAnswer(c)
	}
	if err == nil {
		a, err = s.prove(c, hello, a)
	}
	if err == nil && a.code != codeAccepted {
		err = fmt.Errorf("the readout unit's first answer has the code %d, not %d", a.code, codeAccepted)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	s.onAccepted(a)
	return c, nil
}

// hello is the first message of a front-end.
func (s *Stream) hello() []byte {
	source, typ := s.settings.Source, s.settings.Type
	if source == 0 {
		source = 0xffff
	}
	if typ == 0 {
		typ = 255
	}
	var options []byte
	for i, name := range []string{s.settings.Name, s.settings.Label} {
		if name != "" {
			options = append(options, byte(i+1), 0, byte(len(name)), 0)
			options = append(options, name...)
		}
	}
	options = s.appendNonce(options)
	if s.settings.Follow {
		options = append(options, followOption, followRequired, 0, 0)
	}
	h := append([]byte("RLFH"), streamVersion, typ)
	h = binary.LittleEndian.AppendUint16(h, source)
	h = binary.LittleEndian.AppendUint64(h, s.settings.Run)
	h = binary.LittleEndian.AppendUint16(h, uint16(len(options)))
	h = append(h, 0, 0, 0, 0, 0, 0)
	return append(h, options...)
}

// onAccepted handles the answer that the readout unit has accepted the stream.
func (s *Stream) onAccepted(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.b == 0 || a.b != s.runNumber { // a new run: fragments without an outcome are sent again in it
		s.givenUpInOtherRuns = s.givenUpInOtherRuns.merge(s.givenUp.rangesBelow(s.acked))
	}
	s.givenUp = nil // the readout unit sends the ranges of this run again
	s.resumeEvent, s.runNumber, s.endConfirmed = a.a, a.b, false
	// The readout unit may wait with a fragment for the two behind it, to see whether its number is right.
	kept := max(narrowFragment, s.settings.Keep/3-frameHeader-maxWords)
	s.maxFragmentSize = min(a.d, uint32(min(kept, maxFragment)))
	s.attached, s.lastProgress = true, time.Now()
	s.following.reset()
	signal(s.freed)
	s.buffer.rewind(a.a)
	signal(s.toSend)
	signal(s.changed)
}

// onDetached records that the connection is broken.
func (s *Stream) onDetached() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached, s.detachedSince, s.following.busy = false, time.Now(), 0
	signal(s.freed)
	signal(s.changed)
}

// readAnswer reads one answer. A refusal is a *StreamError.
func readAnswer(r io.Reader) (answer, error) {
	var b [answerHeadSize + answerRestSize]byte
	if _, err := io.ReadFull(r, b[:answerHeadSize]); err != nil {
		return answer{}, err
	}
	n := int(binary.LittleEndian.Uint16(b[6:]))
	version := b[4]
	switch {
	case string(b[:4]) != "RLFA" || version != 1 && version != streamVersion:
		return answer{}, &StreamError{Code: 2, Sentence: fmt.Sprintf("it answers with %q, which is no answer of version %d",
			b[:5], streamVersion)}
	case n > maxSentence:
		return answer{}, &StreamError{Code: 6, Sentence: fmt.Sprintf("it answers with a sentence of %d bytes: %d are the "+
			"most", n, maxSentence)}
	}
	if version == streamVersion {
		if _, err := io.ReadFull(r, b[answerHeadSize:]); err != nil {
			return answer{}, err
		}
	}
	sentence := make([]byte, n)
	if _, err := io.ReadFull(r, sentence); err != nil {
		return answer{}, err
	}
	a := answer{code: b[5], text: string(sentence)}
	switch {
	case a.code > codeOutcome && a.code < codeGivenUp:
		return answer{}, &StreamError{Code: a.code, Sentence: a.text}
	case version == 1:
		return answer{}, &StreamError{Code: 2, Sentence: "it speaks version 1 of the format alone: it is of an older " +
			"release than this client"}
	}
	a.a, a.b = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	a.c, a.d = binary.LittleEndian.Uint32(b[24:]), binary.LittleEndian.Uint32(b[28:])
	return a, nil
}

// readAnswers reads and handles answers until the connection breaks.
func (s *Stream) readAnswers(c conn) {
	for {
		a, err := readAnswer(c)
		if err != nil {
			s.mu.Lock()
			s.delivered = s.leaving && errors.Is(err, io.EOF) && len(s.buffer.unsent()) == 0
			s.mu.Unlock()
			var refused *StreamError
			if errors.As(err, &refused) {
				s.fail(refused)
			}
			return
		}
		s.mu.Lock()
		if a.code != codeOutcome || a.a > s.acked {
			s.lastProgress = time.Now()
		}
		switch a.code {
		case codeOutcome:
			s.acked = max(s.acked, a.a)
			s.buffer.release(s.acked)
		case codeGivenUp:
			s.givenUp = s.givenUp.add(GivenUp{
				From:      a.a,
				To:        a.b,
				Fragments: uint64(a.d),
				Reason:    uint8(min(a.c, 255)),
				Sentence:  a.text,
			})
		case codeEnd:
			s.endConfirmed, s.endEvent = true, a.a
		case codeCommand, codeSource, codeConfig:
			s.following.takeAnswer(a)
			signal(s.commanded)
		case codeBusy:
			s.receiveBusy(a)
		}
		s.mu.Unlock()
		signal(s.changed)
	}
}
