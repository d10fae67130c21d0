package quic

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/express"
	"ringlet/transport/link"
)

var forged = flag.Int("forged", 5_000,
	"packets that TestForgedPackets forges for each link; make check-forged has a million")

// Of docs/format/quic.md: the life of a key in packets; what stands before the sealed part of a packet, of it the
// connection ID and the number.
const (
	epochLen  = 1 << 22
	headerLen = 1 + 8 + 4
	numberAt  = 1 + 8
)

// attacker sees what one end of a link sends, keeps some of it from the other, and sends that other what it has made of
// it.
type attacker struct {
	t      *testing.T
	victim *Network
	sock   *net.UDPConn
	wrong  *express.Sealer // has another key
	mask   cipher.Block    // of the header protection
	before BulkStats

	recording sync.Mutex
	recorded  [64][]byte // packets that were let through; guarded by recording
	latest    []byte     // the batch that is on its way; until the next one it may yet arrive behind what is sent now
	segment   int        // of latest
	batches   int

	sending  sync.Mutex // guards what follows
	rng      *rand.Rand
	sent     BulkStats // by what they must be counted as
	fresh    uint64    // a number that no true packet will have
	withheld int       // forgeries of packets that were kept back: their heads lead to missing chunks
	over     atomic.Bool
}

// tap makes the attacker see the batches of the one link that a network has.
func (a *attacker) tap(n *Network) {
	for i := range n.sessions.byNumber {
		if c := n.sessions.byNumber[i].Load(); c != nil {
			o := c.sender
			send := o.sendFunc
			o.sendFunc = func(fd uintptr) bool {
				if a.capture(unsafe.Slice(o.iov.Base, o.iov.Len), o.segment) {
					o.errno = 0 // lost on the way
					return true
				}
				return send(fd)
			}
		}
	}
}

// capture records a batch, or keeps it back: then forgeries of each of its packets arrive where the true ones are
// awaited.
func (a *attacker) capture(batch []byte, segment int) bool {
	a.recording.Lock()
	a.batches++
	back := a.batches%50 == 0 && !a.over.Load()
	if !back {
		for at := 0; at < len(a.latest); at += a.segment {
			slot := &a.recorded[(a.batches+at/a.segment)%len(a.recorded)]
			*slot = append((*slot)[:0], a.latest[at:min(at+a.segment, len(a.latest))]...)
		}
		a.latest, a.segment = append(a.latest[:0], batch...), segment
	}
	a.recording.Unlock()
	if !back {
		return false
	}
	a.sending.Lock()
	defer a.sending.Unlock()
	for at := 0; at < len(batch); at += segment {
		p := bytes.Clone(batch[at:min(at+segment, len(batch))])
		for range 3 { // in the body or the tag: the head leads to the place
			const body = headerLen + 1 + link.BulkHeaderSize
			bit := 8*body + a.rng.IntN(8*(len(p)-body))
			p[bit/8] ^= 1 << (bit % 8)
			a.shoot(p, &a.sent.Forged)
			a.withheld++
			p[bit/8] ^= 1 << (bit % 8)
		}
		a.awaitCounted()
	}
	return true
}

// pick returns a copy of a packet that was let through, or nil if there is none yet.
func (a *attacker) pick() []byte {
	a.recording.Lock()
	defer a.recording.Unlock()
	return bytes.Clone(a.recorded[a.rng.IntN(len(a.recorded))])
}

// header takes the protection of a packet's header away, or puts it on: this attacker knows its key, as RFC 9001
// (section 9.5) does not promise that nobody will.
func (a *attacker) header(p []byte) {
	var mask [16]byte
	a.mask.Encrypt(mask[:], p[numberAt+4:numberAt+20])
	p[0] ^= mask[0] & 0x1f
	for i := range 4 {
		p[numberAt+i] ^= mask[1+i]
	}
}

// altered has a packet changed, header and all, under its header protection.
func (a *attacker) altered(p []byte, change func(p []byte) []byte) []byte {
	a.header(p)
	p = change(p)
	a.header(p)
	return p
}

// numbered gives a packet whose header is shown a number that was not seen, of one of the keys in use or not yet.
func (a *attacker) numbered(p []byte, epoch uint64) []byte {
	a.fresh++
	binary.BigEndian.PutUint32(p[numberAt:], uint32(epoch*epochLen+epochLen/2+a.fresh))
	p[0] = p[0]&^4 | byte(epoch&1)<<2
	return p
}

// renumbered gives a packet a number that was not seen, and changes it.
func (a *attacker) renumbered(p []byte, change func(p []byte) []byte) ([]byte, *uint64) {
	return a.altered(p, func(p []byte) []byte { return change(a.numbered(p, a.fresh%3)) }), &a.sent.Forged
}

// flip changes a bit of n bytes.
func (a *attacker) flip(p []byte) {
	bit := a.rng.IntN(8 * len(p))
	p[bit/8] ^= 1 << (bit % 8)
}

// kinds of packets that an attacker makes of a true one; each knows its counter.
var forgeries = []func(a *attacker, p []byte) (packet []byte, counter *uint64){
	func(a *attacker, p []byte) ([]byte, *uint64) { return p, &a.sent.Replayed },
	func(a *attacker, p []byte) ([]byte, *uint64) { // what was seen cannot be altered either
		return a.altered(p, func(p []byte) []byte { a.flip(p[headerLen:]); return p }), &a.sent.Replayed
	},
	func(a *attacker, p []byte) ([]byte, *uint64) {
		return p[:2+a.rng.IntN(express.Overhead-2)], &a.sent.Malformed
	},
	func(a *attacker, p []byte) ([]byte, *uint64) { // reserved bits, and another length of the number
		return a.altered(p, func(p []byte) []byte { p[0] ^= []byte{1, 2, 8, 16}[a.rng.IntN(4)]; return p }), &a.sent.Malformed
	},
	func(a *attacker, p []byte) ([]byte, *uint64) {
		a.flip(p[2:numberAt])
		return p, &a.sent.UnknownSession
	},
	func(a *attacker, p []byte) ([]byte, *uint64) { // the other key phase
		return a.altered(p, func(p []byte) []byte { a.numbered(p, a.fresh%3)[0] ^= 4; return p }), &a.sent.UnknownKey
	},
	func(a *attacker, p []byte) ([]byte, *uint64) { // a key that is not yet
		return a.altered(p, func(p []byte) []byte { return a.numbered(p, 3) }), &a.sent.UnknownKey
	},
	func(a *attacker, p []byte) ([]byte, *uint64) { return a.renumbered(p, bytes.Clone) },
	func(a *attacker, p []byte) ([]byte, *uint64) { // truncated
		return a.renumbered(p, func(p []byte) []byte { return p[:express.Overhead+a.rng.IntN(len(p)-express.Overhead)] })
	},
	func(a *attacker, p []byte) ([]byte, *uint64) { // the spin bit is authenticated as well
		return a.renumbered(p, func(p []byte) []byte { p[0] ^= 0x20; return p })
	},
	func(a *attacker, p []byte) ([]byte, *uint64) { // another head, perhaps of a chunk that is missing
		return a.renumbered(p, func(p []byte) []byte { a.flip(p[headerLen:][:1+link.BulkHeaderSize]); return p })
	},
	func(a *attacker, p []byte) ([]byte, *uint64) { // sealed with another key, and otherwise as the true one
		return a.renumbered(p, func(p []byte) []byte {
			out := make([]byte, len(p))
			if _, err := a.wrong.Seal(out, express.Datagram, nil, p[express.Overhead:]); err != nil {
				a.t.Error(err)
			}
			copy(out[:headerLen], p)
			return out
		})
	},
}

func (a *attacker) shoot(p []byte, counter *uint64) {
	if _, err := a.sock.Write(p); err != nil {
		a.t.Error(err)
	}
	*counter++
	a.sent.Packets++
}

// counted is what the victim has counted since the attack began.
func (a *attacker) counted() BulkStats {
	s, b := a.victim.Stats().Bulk, a.before
	return BulkStats{
		Packets:        s.Packets - b.Packets,
		Malformed:      s.Malformed - b.Malformed,
		UnknownSession: s.UnknownSession - b.UnknownSession,
		Replayed:       s.Replayed - b.Replayed,
		UnknownKey:     s.UnknownKey - b.UnknownKey,
		Forged:         s.Forged - b.Forged,
		LinkNotUp:      s.LinkNotUp - b.LinkNotUp,
		Probes:         s.Probes - b.Probes,
	}
}

func refused(s BulkStats) uint64 {
	return s.Malformed + s.UnknownSession + s.Replayed + s.UnknownKey + s.Forged + s.LinkNotUp
}

// awaitCounted waits until the victim has counted all that was sent: the kernel must have no reason to drop any of it.
func (a *attacker) awaitCounted() {
	for end := time.Now().Add(testTimeout); refused(a.counted()) < a.sent.Packets; time.Sleep(20 * time.Microsecond) {
		if time.Now().After(end) {
			if !a.over.Swap(true) {
				a.t.Errorf("of %+v sent %+v were counted; the kernel dropped %d", a.sent, a.counted(), a.victim.sock.kernelDrops())
			}
			return
		}
	}
}

// attack sends as many packets as it is told, of all kinds.
func (a *attacker) attack(packets int) {
	const volley = 16
	for !a.over.Load() {
		a.sending.Lock()
		for range volley {
			if p := a.pick(); len(p) > express.Overhead+255 {
				packet, counter := forgeries[a.rng.IntN(len(forgeries))](a, p)
				a.shoot(packet, counter)
			}
		}
		a.awaitCounted()
		done := a.sent.Packets >= uint64(packets)
		a.sending.Unlock()
		if done {
			a.over.Store(true)
		}
	}
}

// newAttacker is one between the writer and its victim.
func newAttacker(t *testing.T, writer, victim *Network) *attacker {
	t.Helper()
	sock, err := net.DialUDP("udp", nil, victim.Addr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sock.Close() })
	_ = victim.sock.raw.Control(func(fd uintptr) { // room for a volley beside a window, where root may ask for it
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	})
	wrong, err := express.NewSealer(bytes.Repeat([]byte{7}, express.SecretSize), 1)
	if err != nil {
		t.Fatal(err)
	}
	mask, err := aes.NewCipher(protection(t, writer))
	if err != nil {
		t.Fatal(err)
	}
	return &attacker{
		t:      t,
		victim: victim,
		sock:   sock,
		wrong:  wrong,
		mask:   mask,
		rng:    rand.New(rand.NewPCG(6, 7)),
		before: victim.Stats().Bulk,
	}
}

// protection is the key of the header protection of what the one link of a network sends (RFC 9001, section 5.4). The
// network has dialled.
func protection(t *testing.T, n *Network) []byte {
	t.Helper()
	for i := range n.sessions.byNumber {
		c := n.sessions.byNumber[i].Load()
		if c == nil {
			continue
		}
		secret, err := c.export(exporterLabel, true, express.SecretSize)
		if err != nil {
			t.Fatal(err)
		}
		key, err := hkdf.Expand(sha256.New, secret, "\x00\x10\x0dtls13 quic hp\x00", 16)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	t.Fatal("the network has no link")
	return nil
}

// TestForgedPackets: while a node writes and the other checks every byte, an attacker on the path replays,
// alters, cuts, re-keys and keeps back its packets. Each is counted as what it is, none places a byte, and the accounts
// of both nodes balance.
func TestForgedPackets(t *testing.T) {
	for name, tc := range map[string]struct {
		spread bool
	}{
		"in the socket's reader":       {},
		"a goroutine for each session": {spread: true},
	} {
		t.Run(name, func(t *testing.T) {
			ends := endpointsWith(t, func(c *Config) { c.GoroutinePerLink = tc.spread }, withCarrier(transport.CarrierQUIC))
			for i, e := range ends { // a packet is counted before it is known what it is
				eventually(t, fmt.Sprintf("end %d to count what a new link brings", i), func() bool {
					s := e.net.Stats().Bulk
					return s.Packets > 0 && refused(s)+s.Probes == s.Packets
				})
			}
			a := newAttacker(t, ends[0].net, ends[1].net)
			quiet := ends[1].ep.Stats()
			a.tap(ends[0].net)
			began, rounds := time.Now(), 0
			var wg sync.WaitGroup
			defer patiently.Wait(t, wg.Wait)
			defer a.over.Store(true)
			for ; !a.over.Load() || rounds == 0; rounds++ {
				writeAndCheck(t, ends, byte(rounds))
				if rounds == 0 {
					wg.Go(func() { a.attack(*forged) })
				}
			}
			patiently.Wait(t, wg.Wait)
			writeAndCheck(t, ends, 0xFF) // the link has come to no harm
			rounds++
			took := time.Since(began)

			got := a.counted()
			t.Logf("%d rounds of 1 MiB and %d forged packets in %v, %d of them of packets that were kept back: %+v; kernel "+
				"dropped %d",
				rounds, a.sent.Packets, took.Round(time.Millisecond), a.withheld, got, ends[1].net.sock.kernelDrops())
			want := a.sent
			want.Packets = got.Packets
			if got != want || refused(got) != a.sent.Packets {
				t.Errorf("counted\n%+v, sent\n%+v", got, want)
			}
			s := ends[1].ep.Stats()
			if n := s.BytesPlaced - quiet.BytesPlaced; n != uint64(rounds*bulk) {
				t.Errorf("%d bytes were placed, %d written", n, rounds*bulk)
			}
			eventually(t, "the accounts to balance", func() bool {
				got, s = a.counted(), ends[1].ep.Stats()
				return got.Packets == refused(got)+s.DatagramsReceived-quiet.DatagramsReceived
			})
			for i, e := range ends {
				if s := e.ep.Stats(); s.DatagramsMalformed+s.DatagramsBeyondCredit+s.DatagramsStale+
					s.ChunksRefused+s.TransactionsUsed != 0 {
					t.Errorf("end %d: %+v", i, s)
				}
			}
			if w := ends[0].ep.Stats().WritesCompleted; w != uint64(8*rounds) {
				t.Errorf("%d writes completed in %d rounds of 8", w, rounds)
			}
		})
	}
}

// writeAndCheck writes a mebibyte in eight writes and looks at every byte of it.
func writeAndCheck(t *testing.T, ends [2]*end, seed byte) {
	t.Helper()
	if err := ends[0].write(seed); err != nil {
		t.Fatal(err)
	}
	ends[0].outcomes(t, 8)
	for range 8 {
		patiently.Receive(t, ends[1].placed)
	}
	if !bytes.Equal(ends[1].mem, pattern(seed)) {
		t.Fatal("what was placed differs from what was written")
	}
	// takes the link's lock: what comes next is placed after this look, which two processes need not be told
	_ = ends[1].ep.Stats()
}

// TestEachDirectionHasItsKey: what one end seals does not open there, whatever its number and connection ID. Under one
// key for both directions numbers, and so nonces, would come twice.
func TestEachDirectionHasItsKey(t *testing.T) {
	ends := endpointsWith(t, nil, withCarrier(transport.CarrierQUIC))
	for i, e := range ends {
		for at := range e.net.sessions.byNumber {
			c := e.net.sessions.byNumber[at].Load()
			if c == nil {
				continue
			}
			localKey, err := c.export(exporterLabel, i == 0, express.SecretSize) // the end with the lower rank has dialled
			if err != nil {
				t.Fatal(err)
			}
			x, err := express.NewSealer(localKey, c.recvSessionID)
			if err != nil {
				t.Fatal(err)
			}
			p, n := make([]byte, 1000), 0
			for range 5000 { // a number that was not seen
				if n, err = x.Seal(p, express.Datagram, make([]byte, 900), nil); err != nil {
					t.Fatal(err)
				}
			}
			sock, err := net.DialUDP("udp", nil, e.net.Addr().(*net.UDPAddr))
			if err != nil {
				t.Fatal(err)
			}
			defer sock.Close()
			before := refused(e.net.Stats().Bulk)
			if _, err := sock.Write(p[:n]); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the packet to be refused", func() bool { return refused(e.net.Stats().Bulk) == before+1 })
		}
	}
}

// TestPlainIDs: quic-go's connection IDs are those of no session.
func TestPlainIDs(t *testing.T) {
	for range 64 {
		id, err := plainIDs{}.GenerateConnectionID()
		if err != nil || id.Len() != connIDLen || express.IsSession(append([]byte{0x40}, id.Bytes()...)) {
			t.Fatalf("%v, %v", id, err)
		}
	}
}

// TestEachPacketIsCountedOnce: a read may bring packets of one sender's address that belong to nobody, to somebody, and
// in any order.
func TestEachPacketIsCountedOnce(t *testing.T) {
	n := listen(t, configOf(issue(t, "a")))
	n.sessions.pool = nil // opened here, by this goroutine
	c := &expressConn{conn: &conn{net: n}}
	if err := n.sessions.assignNumber(c); err != nil {
		t.Fatal(err)
	}
	packet := func(session uint64) []byte {
		p := make([]byte, 100)
		p[0] = 0x40
		binary.BigEndian.PutUint64(p[1:], session)
		return p
	}
	kinds := [][]byte{packet(c.recvSessionID), packet(c.recvSessionID + 1), packet(c.recvSessionID ^ 1<<40)}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		before := n.Stats().Bulk
		var read []byte
		var want [3]uint64
		for range rng.IntN(60) {
			k := rng.IntN(len(kinds))
			want[min(k, 1)]++
			read = append(read, kinds[k]...)
		}
		if want[2] = uint64(rng.IntN(2)); want[2] > 0 {
			read = append(read, kinds[0][:express.Overhead-1]...)
		}
		n.sessions.dispatch(read, read, 100, false)
		s := n.Stats().Bulk
		got := [3]uint64{s.LinkNotUp - before.LinkNotUp, s.UnknownSession - before.UnknownSession,
			s.Malformed - before.Malformed}
		if got != want || s.Packets-before.Packets != want[0]+want[1]+want[2] {
			t.Fatalf("%d early, of strangers and malformed, of %d, want %d", got, s.Packets-before.Packets, want)
		}
	}
	n.sessions.byNumber[c.recvSessionID%maxSessions].Store(nil)
}
