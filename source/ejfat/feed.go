package ejfat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/event"
	"ringlet/event/ejfat"
	"ringlet/internal/address"
	"ringlet/internal/connlimit"
	"ringlet/source/live"
)

// maxReadDatagrams is how many datagrams are read before fragments are handed out, so that one wake-up serves many.
const maxReadDatagrams = 256

// socketBufferBytes is the receive buffer that the feed asks the kernel for.
const socketBufferBytes = 8 << 20

// feed is a socket and the reassembly of the datagrams that come to it. It implements live.Feed.
type feed struct {
	// immutable
	set        live.FeedSettings
	socket     *net.UDPConn
	raw        syscall.RawConn
	drainBound func(fd uintptr) bool // drain, bound once: a closure for each call would be garbage
	datagram   []byte                // room for the largest datagram

	// owned by the goroutine that calls Next
	reassembly     *reassembly
	dataID         identity
	allowedSenders []netip.Prefix  // senders; nil: every host
	watched        context.Context // the end of this context interrupts a wait
	unwatch        func() bool
	readErr        error // of the last read
	logLimiter     connlimit.LogLimiter

	mu      sync.Mutex // guards what follows
	stats   live.Stats
	refusal error // why the latest packet was refused
}

// identity is the data id of the segments that a feed accepts.
type identity struct {
	id    uint16
	known bool // configured, or learnt from the first segment
}

// addressError says what is wrong with the address of an input.
type addressError struct{ Address, Reason string }

func (e *addressError) Error() string {
	return "input udp:" + e.Address + ": " + e.describe()
}

func (e *addressError) describe() string {
	return e.Reason + "; say udp:ADDRESS:PORT, or udp:ADDRESS:PORT/ID for one data id, and ?allow=10.0.0.0/8,192.0.2.7 " +
		"after it for the hosts that may send"
}

// parseAddress splits an address into where to listen, the data id if there is one, and which hosts may send.
func parseAddress(text string) (where string, ids identity, allow []netip.Prefix, err error) {
	where, query, hasQuery := strings.Cut(text, "?")
	if hasQuery {
		if allow, err = parseAllow(query); err != nil {
			return "", ids, nil, &addressError{text, err.Error()}
		}
	}
	where, id, named := strings.Cut(where, "/")
	ids.known = named
	if named {
		n, err := strconv.ParseUint(id, 10, 16)
		if err != nil {
			return "", ids, nil, &addressError{text, fmt.Sprintf("the data id %q is not a number from 0 to 65535", id)}
		}
		ids.id = uint16(n)
	}
	if err := address.CheckListen(where); err != nil {
		return "", ids, nil, &addressError{text, err.Error()}
	}
	return where, ids, allow, nil
}

// maxAllowed bounds the list of hosts that may send: the feed compares each packet's sender with all of it.
const maxAllowed = 64

// parseAllow parses allow= with its addresses and prefixes.
func parseAllow(query string) (allow []netip.Prefix, err error) {
	list, ok := strings.CutPrefix(query, "allow=")
	if !ok {
		return nil, fmt.Errorf("%q is no option of this input: the only one is allow=", query)
	}
	for one := range strings.SplitSeq(list, ",") {
		prefix, err := netip.ParsePrefix(one)
		if ip, bad := netip.ParseAddr(one); bad == nil && ip.Zone() == "" {
			prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil || len(allow) == maxAllowed {
			return nil, fmt.Errorf("%q is no address and no prefix such as 10.0.0.0/8, or one more than %d", one, maxAllowed)
		}
		allow = append(allow, prefix)
	}
	return allow, nil
}

// Check says why the address cannot be listened at, whatever the host.
func Check(text string) error {
	_, _, _, err := parseAddress(text)
	var wrong *addressError
	if errors.As(err, &wrong) {
		return errors.New(wrong.describe()) // the caller names the input
	}
	return err
}

// HostPort returns the HOST:PORT of an address.
func HostPort(text string) string {
	where, _, _ := strings.Cut(text, "?")
	where, _, _ = strings.Cut(where, "/")
	return where
}

// Open listens at the address of the settings. The feed never ends by itself: UDP has no end.
func Open(_ context.Context, set live.FeedSettings) (live.Feed, error) {
	where, ids, allow, err := parseAddress(set.Address)
	if err != nil {
		return nil, err
	}
	socket, err := address.ListenUDP(where)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", set.Name, err)
	}
	_ = socket.SetReadBuffer(socketBufferBytes) // as much as the kernel allows
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	if set.Log == nil {
		set.Log = slog.New(slog.DiscardHandler)
	}
	f := &feed{
		set:            set,
		socket:         socket,
		raw:            raw,
		datagram:       make([]byte, 1<<16),
		reassembly:     newReassembly(cmp.Or(set.MaxFragment, event.MaxNarrowFragment)),
		dataID:         ids,
		allowedSenders: allow,
		logLimiter:     connlimit.LogLimiter{Burst: connlimit.Burst},
	}
	f.drainBound = f.drain
	set.Log.Info("a source listens", "input", set.Name, "address", socket.LocalAddr().String())
	if allow == nil && !address.IsLocalOnly(socket.LocalAddr()) {
		set.Log.Warn("any host that reaches this address can send to the input: put ?allow=10.0.0.0/8, say, after the "+
			"address, or listen on loopback", "input", set.Name, "address", socket.LocalAddr().String())
	}
	return f, nil
}

// Next implements live.Feed. It allocates only memory for fragments that are larger than those before.
func (f *feed) Next(ctx context.Context, dst []live.Fragment) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if n := f.handOut(dst); n > 0 || len(dst) == 0 {
			return n, nil
		}
		f.watch(ctx)
		if err := f.socket.SetReadDeadline(time.Now().Add(partialTimeout)); err != nil {
			return 0, f.socketError(err)
		}
		if err := ctx.Err(); err != nil { // ctx may have ended before this call set the deadline anew
			return 0, err
		}
		f.readErr = nil
		err := f.raw.Read(f.drainBound)
		f.reassembly.expire(time.Now())
		f.publishStats()
		if err = errors.Join(err, f.readErr); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, f.socketError(err)
		}
	}
}

// watch makes the end of ctx interrupt a wait.
func (f *feed) watch(ctx context.Context) {
	if f.watched == ctx {
		return
	}
	if f.unwatch != nil {
		f.unwatch()
	}
	f.watched = ctx
	f.unwatch = context.AfterFunc(ctx, func() { _ = f.socket.SetReadDeadline(time.Unix(1, 0)) })
}

func (f *feed) socketError(err error) error {
	return fmt.Errorf("input %s: the socket cannot be read: %w", f.set.Name, err)
}

// drain reads the datagrams that are in the socket. True: it read some, or the socket failed. False: the runtime waits
// until the socket is readable.
func (f *feed) drain(fd uintptr) bool {
	now := time.Now()
	for i := range maxReadDatagrams {
		n, err := f.receive(int(fd))
		switch {
		case isStranger(err):
			f.refuse(err)
		case errors.Is(err, unix.EAGAIN):
			return i > 0
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNREFUSED):
		case err != nil:
			f.readErr = err
			return true
		default:
			f.handlePacket(f.datagram[:n], now)
		}
	}
	return true
}

// receive reads one datagram. The error is a *strangerError if its sender may not send. Without a list of senders it
// allocates nothing.
func (f *feed) receive(fd int) (int, error) {
	if f.allowedSenders == nil {
		return unix.Read(fd, f.datagram)
	}
	n, from, err := unix.Recvfrom(fd, f.datagram, 0)
	if err != nil {
		return 0, err
	}
	var ip netip.Addr
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		ip = netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		ip = netip.AddrFrom16(a.Addr).Unmap()
	}
	if !slices.ContainsFunc(f.allowedSenders, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return 0, &strangerError{ip}
	}
	return n, nil
}

// strangerError says that a host sent a datagram that is not on the list of senders.
type strangerError struct{ from netip.Addr }

func (e *strangerError) Error() string {
	return fmt.Sprintf("%s may not send here: add it to ?allow= of the input, if it is a front-end", e.from)
}

func isStranger(err error) bool {
	var e *strangerError
	return errors.As(err, &e)
}

// handlePacket gives one datagram to the reassembly.
func (f *feed) handlePacket(b []byte, now time.Time) {
	if ejfat.IsSync(b) {
		if _, err := ejfat.ParseSync(b); err != nil {
			f.refuse(err)
		}
		return // a message for load balancers only
	}
	s, err := ejfat.ParseSegment(b)
	if err == nil && f.dataID.known && s.DataID != f.dataID.id {
		err = &idError{got: s.DataID, want: f.dataID.id}
	}
	if err != nil {
		f.refuse(err)
		return
	}
	if f.reassembly.addSegment(s, now) == segmentRefused {
		f.reportRefusal(&segmentError{
			event:  s.Event,
			offset: s.Offset,
			length: s.Length,
			data:   len(s.Data),
			most:   f.reassembly.maxFragment,
		})
		return
	}
	if !f.dataID.known {
		f.dataID = identity{id: s.DataID, known: true}
		f.set.Log.Info("a source sends", "input", f.set.Name, "data id", s.DataID)
		f.mu.Lock()
		f.stats.FrontendsAttached++
		f.mu.Unlock()
	}
}

// idError says that a segment belongs to another source.
type idError struct{ got, want uint16 }

func (e *idError) Error() string {
	return fmt.Sprintf("a segment has data id %d, and this input is for %d", e.got, e.want)
}

// segmentError says that a segment contradicts other segments of its fragment, or is too large.
type segmentError struct {
	event          uint64
	offset, length uint32
	data, most     int
}

func (e *segmentError) Error() string {
	if uint64(e.length) > uint64(e.most) {
		return fmt.Sprintf("event %d has a buffer of %d bytes, and %d are the most: put ?max=%d or more behind the "+
			"address of the input", e.event, e.length, e.most, e.length)
	}
	return fmt.Sprintf("%d bytes at %d of %d of event %d contradict what came before, or leave too many gaps", e.data,
		e.offset, e.length, e.event)
}

// refuse counts a packet that breaks the format, and logs some of them.
func (f *feed) refuse(err error) {
	f.reassembly.stats.refused++
	f.reportRefusal(err)
}

func (f *feed) reportRefusal(err error) {
	f.mu.Lock()
	f.refusal = err
	f.mu.Unlock()
	if suppressed, yes := f.logLimiter.Allow("packet", time.Now()); yes {
		f.set.Log.Warn("a packet was refused", "input", f.set.Name, "err", err, "unreported", suppressed)
	}
}

// handOut hands out the fragments that are complete.
func (f *feed) handOut(dst []live.Fragment) int {
	n, size := 0, 0
	for n < len(dst) {
		p, ok := f.reassembly.nextCompleted()
		if !ok {
			break
		}
		dst[n] = live.Fragment{Event: p.event, Type: event.TestDet, Data: p.data}
		size += len(p.data)
		n++
	}
	if n > 0 {
		f.mu.Lock()
		f.stats.Fragments += uint64(n)
		f.stats.Bytes += uint64(size)
		f.mu.Unlock()
	}
	return n
}

// publishStats copies the counters of the reassembly to stats, which any goroutine may read.
func (f *feed) publishStats() {
	c := &f.reassembly.stats
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.LostFragments, f.stats.RefusedMessages, f.stats.Repeated = c.lost, c.refused, c.repeated
}

// ReleaseFragments implements live.Feed.
func (f *feed) ReleaseFragments(n int) { f.reassembly.release(n) }

// SetResumeEvent implements live.Feed: UDP has no way back to the sender.
func (f *feed) SetResumeEvent(uint64) {}

// ReportGivenUp implements live.Feed: UDP has no way back to the sender.
func (f *feed) ReportGivenUp(uint64, uint64, live.Fault) {}

// SetSafeBelow implements live.Feed: UDP has no acknowledgement.
func (f *feed) SetSafeBelow(uint64) {}

// Stats implements live.Feed.
func (f *feed) Stats() live.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Explain implements live.Explainer.
func (f *feed) Explain() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal == nil {
		return ""
	}
	return f.refusal.Error()
}

// Close implements live.Feed.
func (f *feed) Close() error {
	if f.unwatch != nil {
		f.unwatch()
	}
	if err := f.socket.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
