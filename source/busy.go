package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ringlet/internal/address"
	"ringlet/source/live"
)

// BusySettings say when a readout unit with live sources is busy, and where it tells that.
type BusySettings struct {
	live.BusyMarks        // zero: the defaults
	To             string // unix:PATH or udp:HOST:PORT, which get datagrams (docs/format/busy.md); "": nobody
	Name           string // of the node, in the datagrams
}

// BusyStats are the dead time of a readout unit, and what its datagrams came to.
type BusyStats struct {
	live.BusyStats
	Unsent uint64 `count:"busy_unsent" help:"datagrams of busy that nobody took"`
}

// Default marks: what fills a buffer up to the high one is more than a run holds that keeps up (stageBytes,
// config.RetentionBuffers).
const (
	defaultBusyHigh = 80
	defaultBusyLow  = 50
)

// busyRepeat is how often a state is said again.
const busyRepeat = time.Second

// maxSocketPath is the longest path that the kernel takes for a Unix socket, in bytes.
const maxSocketPath = 107

var errBusyTarget = errors.New(
	"is no place for datagrams: give unix:PATH with an absolute path, udp:PORT or udp:HOST:PORT")

// ParseBusyTarget reads unix:PATH, udp:PORT (of this host) or udp:HOST:PORT; an empty text is nobody. network is that
// of package net. The error is the end of a sentence that begins with the text.
func ParseBusyTarget(text string) (network, at string, err error) {
	kind, at, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return "", "", nil
	case kind == "unix" && filepath.IsAbs(at):
		if len(at) > maxSocketPath {
			return "", "", fmt.Errorf("has a path of %d bytes: a Unix socket takes %d", len(at), maxSocketPath)
		}
		return "unixgram", filepath.Clean(at), nil
	case kind == "udp":
		if _, err := strconv.ParseUint(at, 10, 16); err == nil {
			at = "127.0.0.1:" + at
		}
		return "udp", at, address.CheckDial(at)
	}
	return "", "", errBusyTarget
}

// busySender tells front-ends and a receiver of datagrams whether a readout unit is busy. Its lock is taken inside
// all others but those of feeds.
type busySender struct {
	// immutable
	log     *slog.Logger
	marks   live.BusyMarks
	network string // of the receiver; "": there is none
	address string
	start   time.Time
	changed chan struct{} // capacity 1: holds a mark if the receiver does not know the state

	conn   net.Conn // owned by send's goroutine; nil: none
	warned bool     // that the receiver is not there; owned by it, too

	mu        sync.Mutex // guards the rest
	listeners []live.BusyListener
	core      live.Busy
	datagram  busyDatagram // the next one; its time is set when it is sent
	unsent    uint64
}

// newBusySender returns a sender for a unit with so many sources.
func newBusySender(s *Settings, sources int) (*busySender, error) {
	set := &s.Live.Busy
	network, at, err := ParseBusyTarget(set.To)
	if err != nil {
		return nil, fmt.Errorf("busy: %q %w", set.To, err)
	}
	b := &busySender{
		log:     s.Live.Log,
		marks:   set.BusyMarks,
		network: network,
		address: at,
		start:   time.Now(),
		changed: make(chan struct{}, 1),
		core:    live.NewBusy(sources),
		datagram: busyDatagram{
			Unit:   uint16(s.RU),
			Source: noBusySource,
			Run:    s.Live.Run,
			Since:  time.Now(),
			Name:   set.Name[:min(len(set.Name), maxBusyName)],
		},
	}
	b.changed <- struct{}{} // a receiver hears at once that there is a unit
	if b.marks == (live.BusyMarks{}) {
		b.marks = live.BusyMarks{High: defaultBusyHigh, Low: defaultBusyLow}
	}
	return b, nil
}

// addListener adds a feed whose front-end is to hear of the state. Front-ends of feeds that were added before may have
// changed it.
func (b *busySender) addListener(to live.BusyListener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, to)
	if s := b.core.State(); s.IsBusy() {
		to.SetBusy(s)
	}
}

// note gives the core an input, and tells front-ends at once, and the receiver soon, what has changed.
func (b *busySender) note(in live.BusyInput, firstSource int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in.At = time.Since(b.start)
	wasBusy := b.core.State().IsBusy()
	s, changed := b.core.Step(in)
	if !changed {
		return
	}
	d := &b.datagram
	if d.Causes, d.Source = s.Causes, noBusySource; s.Source >= 0 {
		d.Source = uint16(firstSource + s.Source)
	}
	if s.IsBusy() != wasBusy {
		d.Since = time.Now()
	}
	for _, to := range b.listeners {
		to.SetBusy(s)
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// stats returns the counters so far.
func (b *busySender) stats() BusyStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BusyStats{b.core.Stats(time.Since(b.start)), b.unsent}
}

// send sends the state to the receiver whenever it changes, and repeats it, until ctx ends: then it says that the unit
// is free and that this was the last one.
func (b *busySender) send(ctx context.Context) {
	if b.network == "" {
		return
	}
	repeat := time.NewTicker(busyRepeat)
	defer repeat.Stop()
	for over := false; !over; {
		select {
		case <-b.changed:
		case <-repeat.C:
		case <-ctx.Done():
			over = true
		}
		b.sendOnce(over)
	}
	if b.conn != nil {
		_ = b.conn.Close()
	}
}

// sendOnce sends one datagram. A receiver that is new at its address is found by the second attempt. The error of a
// datagram over UDP is that of the one before.
func (b *busySender) sendOnce(over bool) {
	b.mu.Lock()
	d := &b.datagram
	d.Sequence++
	d.Over, d.Time = over, time.Now()
	message := d.append(nil)
	b.mu.Unlock()
	err := b.write(message)
	if err == nil || b.write(message) == nil && b.network != "udp" {
		return
	}
	b.mu.Lock()
	b.unsent++
	b.mu.Unlock()
	if !b.warned {
		b.warned = true
		b.log.Warn("nobody takes what this readout unit says of being busy; it goes on to say it", "receiver", b.address,
			"err", err)
	}
}

// busyWriteTimeout is how long a receiver with a full queue holds up the next state.
const busyWriteTimeout = 20 * time.Millisecond

func (b *busySender) write(message []byte) (err error) {
	if b.conn == nil {
		dialer := net.Dialer{Timeout: busyRepeat}
		if b.conn, err = dialer.Dial(b.network, b.address); err != nil {
			b.conn = nil
			return err
		}
	}
	_ = b.conn.SetWriteDeadline(time.Now().Add(busyWriteTimeout))
	if _, err = b.conn.Write(message); err != nil {
		_ = b.conn.Close()
		b.conn = nil
	}
	return err
}

// The layout of docs/format/busy.md.
const (
	busyMagic    = "RLBY"
	busyVersion  = 1
	busyIsBusy   = 1 << 0
	busyIsOver   = 1 << 1
	maxBusyName  = 64
	noBusySource = 0xFFFF
)

// busyDatagram says whether a readout unit is busy.
type busyDatagram struct {
	Causes   live.BusyCauses
	Over     bool
	Unit     uint16
	Source   uint16
	Run      uint64
	Sequence uint64
	Since    time.Time // of the state
	Time     time.Time // of sending
	Name     string    // of the node
}

// append appends the datagram to dst.
func (d *busyDatagram) append(dst []byte) []byte {
	var state byte
	if d.Causes != 0 {
		state |= busyIsBusy
	}
	if d.Over {
		state |= busyIsOver
	}
	dst = append(dst, busyMagic...)
	dst = append(dst, busyVersion, state, byte(d.Causes), byte(len(d.Name)))
	dst = binary.LittleEndian.AppendUint16(dst, d.Unit)
	dst = binary.LittleEndian.AppendUint16(dst, d.Source)
	dst = append(dst, 0, 0, 0, 0)
	for _, n := range []uint64{d.Run, d.Sequence, uint64(d.Since.UnixNano()), uint64(d.Time.UnixNano())} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return append(dst, d.Name...)
}

// NoteRetained says how many of the buffers of the readout unit are in use. One goroutine at a time calls it. A unit
// whose source is not live, nil, is never busy.
func (l *Live) NoteRetained(used, size uint64) {
	if l == nil {
		return
	}
	if full, changed := l.retainedGate.Update(l.busy.marks, used, size); changed {
		l.busy.note(live.BusyInput{Cause: live.BusyBuilders, Holds: full}, l.firstSource)
	}
}

// noteFill notes how full the stage is. A source that is not read counts as full. mu is held.
func (in *intake) noteFill() {
	used, size := in.stage.fill()
	if in.stalled {
		used = size
	}
	if full, changed := in.gate.Update(in.live.busy.marks, used, size); changed {
		in.live.busy.note(live.BusyInput{Cause: live.BusyIntake, Source: in.index, Holds: full}, in.live.firstSource)
	}
}

// noteAllFills notes how full each stage is. mu is held.
func (l *Live) noteAllFills() {
	for _, in := range l.intakes {
		in.noteFill()
	}
}

// BusyStats returns the dead time so far; none of a source that is not live, nil.
func (l *Live) BusyStats() BusyStats {
	if l == nil {
		return BusyStats{}
	}
	return l.busy.stats()
}
