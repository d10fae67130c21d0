package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/event"
	"ringlet/event/ejfat"
	"ringlet/internal/address"
)

// packetHeaderBytes is the bytes before a segment's data in a packet: IPv6, UDP, and EJFAT's two headers.
const packetHeaderBytes = 40 + 8 + ejfat.BalancerSize + ejfat.SegmentSize

// Limits of a packet's size, bytes. Every Ethernet carries the default.
const (
	defaultMTU = 1500
	minMTU     = 576
	maxMTU     = 65535
)

// syncInterval is how often the load balancer is told how far the event numbers have come.
const syncInterval = time.Second

// Datagrams is the sink that sends each event as EJFAT's segments to an address (docs/format/ejfat.md): an MDF record
// is a buffer, the builder unit is its source. UDP has no acknowledgements: the sink does not learn what the network
// or the receiver loses.
type Datagrams struct {
	// immutable
	name         string
	conn         net.Conn
	syncConn     net.Conn // nil: no load balancer is told how far the event numbers have come
	builder      uint16
	segmentBytes int // bytes of data in a segment

	// owned by the goroutine that uses the sink
	encoder         encoder
	record          stream // its buf is the record
	packet          []byte
	result          Result
	closed          bool
	lastSyncAt      time.Time // when the last synchronisation message was sent
	eventsSinceSync uint64    // events sent since then

	count counted[DatagramStats]
}

// DatagramStats are the counters of a Datagrams that are not in its Result.
type DatagramStats struct {
	SentSegments uint64 `count:"output_udp_segments" help:"segments sent to the address of the output"`
	ConnRefusals uint64 `count:"output_udp_unheard" help:"times that the destination host said that no process listens"`
	SentSyncs    uint64 `count:"output_udp_syncs" help:"synchronisation messages sent"`
}

// destinationError says what is wrong with the address of an output.
type destinationError struct{ Output, Reason string }

func (e *destinationError) Error() string {
	return fmt.Sprintf("output %s: %s; write udp:HOST:PORT, and after it ?mtu=9000 or ?sync=HOST:PORT if wanted", e.Output,
		e.Reason)
}

// destination is a parsed output.
type destination struct {
	address, syncAddress string
	mtu                  int
}

// parseDestination parses an output: udp:HOST:PORT?mtu=BYTES&sync=HOST:PORT.
func parseDestination(output string) (d destination, err error) {
	fail := func(format string, args ...any) (destination, error) {
		return destination{}, &destinationError{output, fmt.Sprintf(format, args...)}
	}
	rest := strings.TrimPrefix(output, "udp:")
	at, query, _ := strings.Cut(rest, "?")
	if err := address.CheckDial(at); err != nil {
		return fail("%v", err)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return fail("%v", err)
	}
	d = destination{address: at, mtu: defaultMTU}
	for key := range values {
		value := values.Get(key)
		switch key {
		case "mtu":
			if len(values[key]) > 1 {
				return fail("mtu is given twice")
			}
			if d.mtu, err = strconv.Atoi(value); err != nil || d.mtu < minMTU || d.mtu > maxMTU {
				return fail("mtu %q is not a number from %d to %d", value, minMTU, maxMTU)
			}
		case "sync":
			if err := address.CheckDial(value); err != nil {
				return fail("sync: %v", err)
			}
			d.syncAddress = value
		default:
			return fail("%q is unknown", key)
		}
	}
	return d, nil
}

// checkDestination says what is wrong with an output of the kind udp. The error is a *destinationError.
func checkDestination(output string) error {
	_, err := parseDestination(output)
	return err
}

func openDatagrams(s Settings) (Sink, error) {
	d, err := parseDestination(s.Output)
	if err != nil {
		return nil, err
	}
	out := &Datagrams{
		name:         s.Output,
		builder:      uint16(s.Segments.Builder),
		segmentBytes: d.mtu - packetHeaderBytes,
		packet:       make([]byte, 0, d.mtu),
		result:       Result{Path: s.Output},
	}
	if out.conn, err = net.Dial("udp", d.address); err != nil {
		return nil, wrapError(s.Output, "find the address", err)
	}
	if d.syncAddress != "" {
		if out.syncConn, err = net.Dial("udp", d.syncAddress); err != nil {
			return nil, errors.Join(wrapError(s.Output, "find the address of sync", err), out.conn.Close())
		}
	}
	return out, nil
}

// Write sends every event of the MEP. If no process listens at the destination, that is counted, and no error.
func (d *Datagrams) Write(ctx context.Context, m Meta, mep []byte) error {
	if d.closed {
		return wrapError(d.name, "write", errClosed)
	}
	if err := d.encoder.parse(m, mep); err != nil {
		return wrapError(d.name, fmt.Sprintf("send MEP %d", m.MEP), err)
	}
	d.encoder.beginEvents()
	for i := range m.Events {
		id := m.FirstEvent + uint64(i)
		d.record.buf = d.record.buf[:0]
		sealed, err := d.encoder.appendRecord(&d.record, m, id)
		if err == nil && !sealed {
			err = event.SealRecords(d.record.buf)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = d.sendRecord(id, d.record.buf)
		}
		if err != nil {
			return wrapError(d.name, fmt.Sprintf("send event %d", id), err)
		}
		d.result.Events++
		d.result.Bytes += uint64(len(d.record.buf))
	}
	d.result.MEPs++
	d.eventsSinceSync += uint64(m.Events)
	d.sendSync(m.FirstEvent + uint64(m.Events) - 1)
	return nil
}

// sendRecord cuts a record into segments and sends them.
func (d *Datagrams) sendRecord(id uint64, record []byte) error {
	for at := 0; at < len(record); at += d.segmentBytes {
		b := ejfat.AppendBalancer(d.packet[:0], id, d.builder)
		d.packet = ejfat.AppendSegment(b, ejfat.Segment{
			DataID: d.builder,
			Offset: uint32(at),
			Length: uint32(len(record)),
			Event:  id,
			Data:   record[at:min(at+d.segmentBytes, len(record))],
		})
		if _, err := d.conn.Write(d.packet); errors.Is(err, unix.ECONNREFUSED) {
			d.count.update(func(s *DatagramStats) { s.ConnRefusals++ }) // it refuses an earlier packet; this one was not sent
			_, err = d.conn.Write(d.packet)
			if err != nil && !errors.Is(err, unix.ECONNREFUSED) {
				return err
			}
		} else if err != nil {
			return err
		}
		d.count.update(func(s *DatagramStats) { s.SentSegments++ })
	}
	return nil
}

// sendSync tells the load balancer how far the event numbers have come, and how fast. If a message is lost, the next
// one follows a second later.
func (d *Datagrams) sendSync(last uint64) {
	now := time.Now()
	passed := now.Sub(d.lastSyncAt)
	if d.syncConn == nil || passed < syncInterval {
		return
	}
	rate := uint64(0)
	if !d.lastSyncAt.IsZero() {
		rate = uint64(float64(d.eventsSinceSync) / passed.Seconds())
	}
	message := ejfat.AppendSync(d.packet[:0], ejfat.Sync{
		Source: uint32(d.builder),
		Event:  last,
		Rate:   uint32(min(rate, 1<<32-1)),
		Time:   uint64(now.UnixNano()),
	})
	if _, err := d.syncConn.Write(message); err == nil {
		d.count.update(func(s *DatagramStats) { s.SentSyncs++ })
	}
	d.lastSyncAt, d.eventsSinceSync = now, 0
}

// Flush does nothing: Write has sent all segments.
func (d *Datagrams) Flush() error { return nil }

// Stats reads the counters, from any goroutine.
func (d *Datagrams) Stats() DatagramStats { return d.count.read() }

// Finish closes the socket. Result.Bytes are those sent, without headers.
func (d *Datagrams) Finish() (Result, error) {
	if d.closed {
		return Result{}, wrapError(d.name, "finish", errClosed)
	}
	return d.result, d.Abort()
}

// Abort closes the socket.
func (d *Datagrams) Abort() error {
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.conn.Close()
	if d.syncConn != nil {
		err = errors.Join(err, d.syncConn.Close())
	}
	return wrapError(d.name, "close", err)
}
