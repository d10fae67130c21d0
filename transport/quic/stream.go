package quic

// The carrier stream: datagrams as records on QUIC streams. Pipeline of a datagram:
//
//	Send    1 putRecord     (parallel per stream)        copied once, behind its length, into the stream's own buffer
//	        2 Write         (sequential per stream)      quic-go cuts it into packets and returns when the last is cut
//	reader  3 readRecord    (parallel, one per stream)   into a buffer of the stream, which has as many as slots
//	Recv    4 fillBatch     (sequential, the caller)     buffers are lent until the next call
//
// There are two streams each way, so that a signal or an ack does not wait behind bulk that was sent before it.
// Nothing here allocates per datagram. The windows of flow control exceed what the link's credits let be in flight, so
// that Send waits for the network but not for the peer to call Recv.

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
	// maxQuickDatagram is the longest that takes the quick stream: signals, responses, acks, and small writes.
	maxQuickDatagram = 4 << 10
	// streamCredit is the credit in datagrams, 2 MiB, and streamRingSize how far repair may lag behind.
	streamCredit   = 64
	streamRingSize = 256
	// streamSlots is how many datagrams of a stream may wait for Recv or be lent by it: two of the bursts that the link
	// takes, so that the reader goes on while one is placed.
	streamSlots = 32
)

// Which stream, as its first bytes say.
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
	done chan struct{} // closed when nothing more can come

	endOnce sync.Once
	err     error // written before over is closed
	wg      sync.WaitGroup
}

// streamOut is the sending half of a stream.
type streamOut struct {
	st  *quicgo.SendStream
	mu  sync.Mutex // guards buf, and keeps records whole
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

// preambleOf is what a stream begins with: magic, kind, 0, and the credit and the ring of the link, which both ends
// must agree on.
func preambleOf(kind int) (p [12]byte) {
	binary.LittleEndian.PutUint32(p[:], streamMagic)
	p[4] = uint8(kind)
	binary.LittleEndian.PutUint16(p[6:], streamCredit)
	binary.LittleEndian.PutUint16(p[8:], streamRingSize)
	return p
}

// upgradeStream opens this end's streams and takes the peer's.
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

// open opens this end's streams and says which is which.
func (s *streamConn) open(ctx context.Context) error {
	for kind, max := range [numStreams]int{maxQuickDatagram, streamDatagram} {
		st, err := s.qc.OpenUniStreamSync(ctx)
		if err != nil {
			return err
		}
		st.SetPriority(int8(2*kind), true) // the quick one goes first
		p := preambleOf(kind)
		if _, err := st.Write(p[:]); err != nil { // is buffered
			return err
		}
		s.out[kind] = streamOut{st: st, buf: make([]byte, recordHeader+max)}
		in := &s.in[kind]
		in.maxDatagram, in.ready, in.free = max, make(chan []byte, streamSlots), make(chan []byte, streamSlots)
		in.lent = make([][]byte, 0, streamSlots)
		for range streamSlots {
			in.free <- nil // made when it is first needed
		}
	}
	return nil
}

// accept takes the peer's streams.
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
			return fmt.Errorf("a stream of %s begins with % x, and not with its kind: look whether the peer runs the same "+
				"release", s.name, p)
		}
		s.in[kind].st = st
	}
	return nil
}

func (s *streamConn) Peer() string     { return s.name }
func (s *streamConn) MaxDatagram() int { return streamDatagram }

// Sizes are the carrier's own.
func (s *streamConn) Sizes() transport.Sizes {
	return transport.Sizes{Credit: streamCredit, SeqWindow: streamRingSize}
}

// Send puts the datagram on the stream that suits its size.
func (s *streamConn) Send(d []byte) error {
	kind := streamQuick
	if len(d) > maxQuickDatagram {
		kind = streamBulk
	}
	if len(d) == 0 || len(d) > streamDatagram {
		return fmt.Errorf("a datagram of %d bytes, where 1 to %d may go", len(d), streamDatagram)
	}
	o := &s.out[kind]
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.st.Write(o.buf[:putRecord(o.buf, d)])
	return translateError(err)
}

// read takes the peer's records off one of its streams.
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
		in.ready <- buf[:n] // has a place for each buffer
	}
}

// wrapStreamError tells what the peer did to one stream from what befell the whole connection.
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

// Recv waits for one datagram and then takes those that are read already.
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

// fillBatch fills the batch up from place n on. It leaves the reader half of the buffers to go on with.
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
		in.free <- d[:cap(d)] // has a place for each buffer
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
