package quic

// The carrier stream: datagrams as records on QUIC streams. Pipeline of a datagram:
//
//	Send    1 putRecord     (parallel per stream)        copied once, behind its length, into the stream's own buffer
//	        2 Write         (sequential per stream)      quic-go cuts it into packets and returns when the last is cut
//	reader  3 readRecord    (parallel, one per stream)   into a buffer of the stream, which has as many as slots
//	Recv    4 fillBatch     (sequential, the caller)     buffers are lent until the next call
//
// There are two streams each way, so that a signal or an ack does not wait behind earlier bulk data. Nothing here
// allocates per datagram. The flow-control windows exceed the link's credits, so that Send waits for the network but
// not for the peer to call Recv.

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/transport"
)

const (
	// streamDatagram makes a full chunk 32 KiB. 16 and 60 KiB took as many CPU s per GB, as did credits of 16 to 128
	// (2026-11-21, docs/design/011-quic.md).
	streamDatagram = 32<<10 + 44
	// maxQuickDatagram is the longest datagram on the quick stream, bytes: signals, responses, acks, and small writes.
	maxQuickDatagram = 4 << 10
	// streamCredit is the credit in datagrams, 2 MiB, and streamRingSize the sequence window.
	streamCredit   = 64
	streamRingSize = 256
	// streamSlots is how many datagrams of a stream may wait for Recv or be lent by it: two bursts of the link, so that
	// the reader goes on while the link places one.
	streamSlots = 32
)

// Kinds of streams, as in their preambles.
const (
	streamQuick = iota // datagrams of up to maxQuickDatagram bytes
	streamBulk         // longer ones
	numStreams
)

var streamNames = [numStreams]string{"quick", "bulk"}

// streamConn is a connection whose datagrams travel on streams.
type streamConn struct {
	// immutable after upgradeStream
	qc   *quicgo.Conn
	name string
	out  [numStreams]streamOut
	in   [numStreams]streamIn
	done chan struct{} // closed when no more datagrams can arrive

	endOnce sync.Once
	err     error // written before done is closed
	wg      sync.WaitGroup
}

// streamOut is the sending half of a stream.
type streamOut struct {
	st  *quicgo.SendStream
	mu  sync.Mutex // guards buf, and keeps records in one piece
	buf []byte
}

// streamIn is the receiving half of a stream.
type streamIn struct {
	st          *quicgo.ReceiveStream
	maxDatagram int
	ready       chan []byte
	free        chan []byte
	lent        [][]byte // owned by Recv's caller
}

const streamMagic = 0x53474E52 // "RNGS"

// preambleOf is the first bytes of a stream: magic, kind, 0, and the link's credit and sequence window, which both ends
// must have alike.
func preambleOf(kind int) (p [12]byte) {
	binary.LittleEndian.PutUint32(p[:], streamMagic)
	p[4] = uint8(kind)
	binary.LittleEndian.PutUint16(p[6:], streamCredit)
	binary.LittleEndian.PutUint16(p[8:], streamRingSize)
	return p
}

// upgradeStream opens this end's streams and accepts the peer's.
func upgradeStream(ctx context.Context, c *conn) (*streamConn, error) {
	s := &streamConn{qc: c.qc, name: c.name, done: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if err := s.accept(ctx); err != nil {
		return nil, err
	}
	if err := c.st.Close(); err != nil {
		return nil, err
	}
	for kind := range s.in {
		s.wg.Go(func() { s.read(kind) })
	}
	return s, nil
}

// open opens this end's streams and sends their preambles.
func (s *streamConn) open(ctx context.Context) error {
	for kind, max := range [numStreams]int{maxQuickDatagram, streamDatagram} {
		st, err := s.qc.OpenUniStreamSync(ctx)
		if err != nil {
			return err
		}
		st.SetPriority(int8(2*kind), true) // quic-go sends the quick stream first
		p := preambleOf(kind)
		if _, err := st.Write(p[:]); err != nil { // buffered until the first record
			return err
		}
		s.out[kind] = streamOut{st: st, buf: make([]byte, recordHeader+max)}
		in := &s.in[kind]
		in.maxDatagram, in.ready, in.free = max, make(chan []byte, streamSlots), make(chan []byte, streamSlots)
		in.lent = make([][]byte, 0, streamSlots)
		for range streamSlots {
			in.free <- nil // allocated by the first read that needs it
		}
	}
	return nil
}

// accept accepts the peer's streams.
func (s *streamConn) accept(ctx context.Context) error {
	for range numStreams {
		st, err := s.qc.AcceptUniStream(ctx)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { _ = st.SetReadDeadline(time.Now()) })
		p := preambleOf(0)
		_, err = io.ReadFull(st, p[:])
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		kind := int(p[4])
		if p != preambleOf(kind) || kind >= numStreams || s.in[kind].st != nil {
			return fmt.Errorf("a stream of %s begins with % x, not with the expected preamble: check whether "+
				"the peer runs the same release", s.name, p)
		}
		s.in[kind].st = st
	}
	return nil
}

func (s *streamConn) Peer() string     { return s.name }
func (s *streamConn) MaxDatagram() int { return streamDatagram }

// Sizes returns the fixed sizes of this carrier.
func (s *streamConn) Sizes() transport.Sizes {
	return transport.Sizes{Credit: streamCredit, SeqWindow: streamRingSize}
}

// Send writes the datagram to the stream for its size.
func (s *streamConn) Send(d []byte) error {
	kind := streamQuick
	if len(d) > maxQuickDatagram {
		kind = streamBulk
	}
	if len(d) == 0 || len(d) > streamDatagram {
		return fmt.Errorf("a datagram of %d bytes, not 1 to %d", len(d), streamDatagram)
	}
	o := &s.out[kind]
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.st.Write(o.buf[:putRecord(o.buf, d)])
	return translateError(err)
}

// read reads the peer's records from one of its streams.
func (s *streamConn) read(kind int) {
	in := &s.in[kind]
	r := bufio.NewReaderSize(in.st, maxQuickDatagram)
	for {
		var buf []byte
		select {
		case buf = <-in.free:
		case <-s.done:
			return
		}
		if buf == nil {
			buf = make([]byte, in.maxDatagram)
		}
		n, err := readRecord(r, buf[:in.maxDatagram])
		if err != nil {
			s.end(s.wrapStreamError(kind, err))
			return
		}
		in.ready <- buf[:n] // ready can hold all buffers
	}
}

// wrapStreamError tells an error of one stream, which the peer caused, from the end of the whole connection.
func (s *streamConn) wrapStreamError(kind int, err error) error {
	var reset *quicgo.StreamError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s has ended its %s stream: %w", s.name, streamNames[kind], err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errRecordLength), errors.As(err, &reset):
		return fmt.Errorf("%s stream of %s: %w", streamNames[kind], s.name, err)
	}
	return translateError(err)
}

func (s *streamConn) end(err error) {
	s.endOnce.Do(func() {
		s.err = err
		close(s.done)
	})
}

// Recv waits for one datagram and then takes those that have already been read.
func (s *streamConn) Recv(batch [][]byte) (int, error) {
	for i := range s.in {
		s.in[i].returnBuffers()
	}
	select {
	case d := <-s.in[streamQuick].ready:
		batch[0] = s.in[streamQuick].lend(d)
	case d := <-s.in[streamBulk].ready:
		batch[0] = s.in[streamBulk].lend(d)
	case <-s.done:
		return 0, s.err
	}
	n := 1
	for i := range s.in {
		n = s.in[i].fillBatch(batch, n)
	}
	return n, nil
}

func (in *streamIn) lend(d []byte) []byte {
	in.lent = append(in.lent, d)
	return d
}

// fillBatch fills the batch from place n on. It lends at most half of the buffers, so that the reader can go on.
func (in *streamIn) fillBatch(batch [][]byte, n int) int {
	for n < len(batch) && len(in.lent) < streamSlots/2 {
		select {
		case d := <-in.ready:
			batch[n] = in.lend(d)
			n++
		default:
			return n
		}
	}
	return n
}

func (in *streamIn) returnBuffers() {
	for i, d := range in.lent {
		in.free <- d[:cap(d)] // free can hold all buffers
		in.lent[i] = nil
	}
	in.lent = in.lent[:0]
}

// Close ends the connection and waits for the readers.
func (s *streamConn) Close(reason string) error {
	err := s.qc.CloseWithError(0, reason)
	s.end(translateError(context.Cause(s.qc.Context())))
	s.wg.Wait()
	return err
}
