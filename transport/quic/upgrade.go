package quic

// How a connection gets a session of package express. Both ends go on with the stream of the hellos:
//
//	1 both send their connection ID for the session, the largest packet of their interface and receive buffer
//	2 both derive keys from the TLS session (RFC 8446, section 7.5), a pair for each direction
//	3 the dialler probes: packets of several sizes, answered in the same size
//	4 the dialler sends the size, the acceptor confirms it, and both have a link

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"ringlet/transport"
	"ringlet/transport/express"
)

// exporterLabel is the exporter label of the first traffic secrets; the context is the direction.
const exporterLabel = "EXPORTER-ringlet-quic-v1"

// upgradeExpress gives the connection a session of package express.
func (c *conn) upgradeExpress(ctx context.Context, u transport.Upgrade) (transport.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.st.SetDeadline(time.Now()) })
	defer stop()
	x := &expressConn{conn: c, damage: u.Damage, probeAnswers: make(chan int, 16),
		inbox: inbox{reads: make(chan queuedRead, readBufferPoolSize)}}
	binary.BigEndian.PutUint64(x.probeNonce[:], rand.Uint64())
	if err := c.net.sessions.assignNumber(x); err != nil {
		return nil, err
	}
	if p := c.net.sessions.pool; p != nil {
		c.net.wg.Go(func() { x.serve(p) })
	}
	if err := x.upgrade(ctx, u); err != nil {
		c.net.sessions.byNumber[x.recvSessionID%maxSessions].CompareAndSwap(x, nil)
		return nil, err
	}
	return x, nil
}

// assignNumber gives a session a random connection ID with a free index.
func (b *sessions) assignNumber(x *expressConn) error {
	for range 8 * maxSessions {
		x.recvSessionID = express.NewSessionID(rand.Uint64())
		if b.byNumber[x.recvSessionID%maxSessions].CompareAndSwap(nil, x) {
			return nil
		}
	}
	return fmt.Errorf("all %d sessions of this node are in use", maxSessions)
}

func (c *expressConn) upgrade(ctx context.Context, u transport.Upgrade) error {
	to, err := c.remote()
	if err != nil {
		return err
	}
	ip := to.IP // an address of the interface that leads to the peer: this end's own, or, on the loopback, the peer's
	if from, ok := c.qc.LocalAddr().(*net.UDPAddr); ok && !ip.IsLoopback() {
		ip = from.IP
	}
	iface := maxUDPPayload(interfaceMTU(ip), to.IP, maxBulkPacket)
	theirs, err := c.introduce(iface)
	if err != nil {
		return err
	}
	if err := c.prepare(u, theirs.session); err != nil {
		return err
	}
	if u.Dialler {
		// The peer answers probes once it has sent messageReady.
		if err := c.expectReady(); err != nil {
			return err
		}
		if c.packetSize, err = c.probePacketSize(ctx, c.qc.Context(), candidateSizes(min(iface, theirs.largestPacket)),
			c.sendProbe); err == nil {
			err = putMessage(c.st, binary.LittleEndian.AppendUint16(nil, uint16(c.packetSize)))
		}
		if err == nil {
			err = c.expectReady() // a datagram to a peer that is not ready yet would be lost
		}
	} else {
		if err = putMessage(c.st, []byte{messageReady}); err == nil {
			c.packetSize, err = c.receiveSize(min(iface, theirs.largestPacket))
		}
		if err == nil {
			err = putMessage(c.st, []byte{messageReady})
		}
	}
	if err != nil {
		return err
	}
	c.endProbing()
	c.credit = min(creditFor(c.packetSize), max(16, min(theirs.receiveSpace, c.net.sock.receiveSpace())/c.packetSize))
	return c.st.Close()
}

// messageReady says that its sender answers probes, and later that it accepts datagrams.
const messageReady = 1

func (c *expressConn) expectReady() error {
	m, err := getMessage(c.st)
	if err == nil && (len(m) != 1 || m[0] != messageReady) {
		err = fmt.Errorf("%s sent %x instead of the message that it is ready", c.name, m)
	}
	return err
}

func (c *expressConn) receiveSize(most int) (int, error) {
	m, err := getMessage(c.st)
	if err != nil {
		return 0, err
	}
	if len(m) != 2 {
		return 0, fmt.Errorf("%s sent a packet size in %d bytes, not 2", c.name, len(m))
	}
	size := int(binary.LittleEndian.Uint16(m))
	if size < minPacketSize || size > most {
		return 0, fmt.Errorf("%s wants packets of %d bytes; this path carries %d to %d", c.name, size, minPacketSize, most)
	}
	return size, nil
}

// introduction is an end's first message of the upgrade.
type introduction struct {
	session       uint64
	largestPacket int // of its interface, bytes
	receiveSpace  int // of the socket's receive buffer, bytes
}

func (c *expressConn) introduce(largest int) (introduction, error) {
	var b [14]byte
	binary.BigEndian.PutUint64(b[0:], c.recvSessionID) // in the byte order of packets
	binary.LittleEndian.PutUint16(b[8:], uint16(largest))
	binary.LittleEndian.PutUint32(b[10:], uint32(c.net.sock.receiveSpace()))
	if err := putMessage(c.st, b[:]); err != nil {
		return introduction{}, err
	}
	m, err := getMessage(c.st)
	if err != nil {
		return introduction{}, err
	}
	if len(m) != len(b) {
		return introduction{}, fmt.Errorf("%s introduced itself in %d bytes, not %d", c.name, len(m), len(b))
	}
	i := introduction{
		session:       binary.BigEndian.Uint64(m),
		largestPacket: int(binary.LittleEndian.Uint16(m[8:])),
		receiveSpace:  int(binary.LittleEndian.Uint32(m[10:])),
	}
	if i.largestPacket < minPacketSize || largest < minPacketSize {
		return i, fmt.Errorf("the interface carries packets of %d bytes, that of %s %d; the carrier quic needs %d",
			largest, c.name, i.largestPacket, minPacketSize)
	}
	return i, nil
}

// prepare derives the keys for both directions; from here on this end answers probes.
func (c *expressConn) prepare(u transport.Upgrade, session uint64) error {
	out, err := c.export(exporterLabel, u.Dialler, express.SecretSize)
	if err != nil {
		return err
	}
	in, err := c.export(exporterLabel, !u.Dialler, express.SecretSize)
	if err != nil {
		return err
	}
	to, err := c.remote()
	if err != nil {
		return err
	}
	sealer, err := express.NewSealer(out, session)
	if err != nil {
		return err
	}
	opener, err := express.NewOpener(in)
	if err != nil {
		return err
	}
	c.sealer, c.sender, c.probing = sealer, newSender(c.net.sock, to, 1<<16), true
	c.opener.Store(opener)
	return nil
}

const (
	// minPacketSize holds the smallest datagram of a link, bytes.
	minPacketSize = 1200
	// jumboPacketSize is the payload of a 9000-byte frame with IPv4, bytes.
	jumboPacketSize = 8972
)

// candidateSizes are the sizes to probe, in falling order: the most that the interfaces carry, and the sizes of usual
// networks between them.
func candidateSizes(most int) []int {
	sizes := []int{most}
	for _, s := range [...]int{jumboPacketSize, jumboPacketSize - 20, 1472, 1452, 1392, minPacketSize} {
		if s < most {
			sizes = append(sizes, s)
		}
	}
	return sizes
}

// maxBulkPacket bounds packets where the interface carries any size. See docs/design/011-quic.md for the measurement.
const maxBulkPacket = jumboPacketSize
