package transport

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"ringlet/internal/decimal"
)

// Damage is how often a test does each kind of damage, to show that each is detected, counted and repaired
// (NIC-crossbar §3.1.6). Bits of headers and bodies flip in arriving packets before decryption, so the carrier's
// authentication must detect them. An epoch changes before encryption, so the receiver sees a datagram of another view.
// A row of the export table is wrong for one look-up.
type Damage struct {
	HeaderShare float64 // share of packets with one flipped bit in the header
	BodyShare   float64 // share of packets with one flipped bit in the encrypted bytes
	EpochShare  float64 // share of datagrams sent with the number of another view
	TableShare  float64 // share of datagrams whose window is looked up in the export table with a wrong generation
}

// maxDamage is the largest share: with more, a link cannot be expected to work.
const maxDamage = 0.5

// ParseDamage reads kinds and shares, such as header=1e-4,body=1e-4,epoch=1e-4,table=1e-4. An empty text is no damage.
func ParseDamage(text string) (d Damage, err error) {
	if text == "" {
		return d, nil
	}
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		kind, value, _ := strings.Cut(item, "=")
		share, err := decimal.Float(value)
		if err != nil || !(share >= 0 && share <= maxDamage) {
			return Damage{}, fmt.Errorf("%q is not a kind of damage and its share, from 0 to %v, such as body=1e-4", item,
				maxDamage)
		}
		if seen[kind] {
			return Damage{}, fmt.Errorf("%s is given twice", kind)
		}
		seen[kind] = true
		switch kind {
		case "header":
			d.HeaderShare = share
		case "body":
			d.BodyShare = share
		case "epoch":
			d.EpochShare = share
		case "table":
			d.TableShare = share
		default:
			return Damage{}, fmt.Errorf("%q is no kind of damage: there are header, body, epoch and table", kind)
		}
	}
	return d, nil
}

// DamagesPackets reports whether there is damage that only the carrier's authentication can detect.
func (d Damage) DamagesPackets() bool { return d.HeaderShare > 0 || d.BodyShare > 0 }

// A Damager damages some of the datagrams of one link, at random by the shares of a Damage, and counts those that it
// damaged.
type Damager struct {
	// immutable
	shares Damage

	// each owned by one goroutine: the one that decrypts, the sender, and the receiver of decrypted datagrams
	recvRand, sendRand, tableRand *rand.Rand

	damagedHeaders, damagedBodies, damagedEpochs, damagedTables atomic.Uint64
}

// newDamager returns nil where there is no damage to do.
func newDamager(d Damage, seed uint64) *Damager {
	if d == (Damage{}) {
		return nil
	}
	return &Damager{
		shares:    d,
		recvRand:  rand.New(rand.NewPCG(seed, 0x696e)),
		sendRand:  rand.New(rand.NewPCG(seed, 0x6f7574)),
		tableRand: rand.New(rand.NewPCG(seed, 0x726f7773)),
	}
}

// DamagePacket flips a bit of some of the packets that have arrived and are not decrypted yet: in the header, which is
// the bytes from id to body, or in the encrypted bytes behind it. It allocates nothing.
func (d *Damager) DamagePacket(p []byte, id, body int) {
	if len(p) <= body {
		return
	}
	r := d.recvRand.Float64()
	switch {
	case r < d.shares.HeaderShare:
		d.damagedHeaders.Add(1)
		flipBit(p[id:body], d.recvRand)
	case r < d.shares.HeaderShare+d.shares.BodyShare:
		d.damagedBodies.Add(1)
		flipBit(p[body:], d.recvRand)
	}
}

func flipBit(b []byte, rng *rand.Rand) {
	at := rng.IntN(8 * len(b))
	b[at/8] ^= 1 << (at % 8)
}

// damageEpoch changes the view's number in the head of some of the datagrams before they are encrypted.
func (d *Damager) damageEpoch(head []byte) {
	if d.sendRand.Float64() < d.shares.EpochShare {
		d.damagedEpochs.Add(1)
		binary.LittleEndian.PutUint16(head[viewOffset:],
			binary.LittleEndian.Uint16(head[viewOffset:])+1+uint16(d.sendRand.IntN(1<<16-1)))
	}
}

// viewOffset is where a datagram's header has the view's number (docs/format/wire.md).
const viewOffset = 2

// addStats adds the counters of damage to s.
func (d *Damager) addStats(s *Stats) {
	if d != nil {
		s.DamagedHeaders += d.damagedHeaders.Load()
		s.DamagedBodies += d.damagedBodies.Load()
		s.DamagedEpochs += d.damagedEpochs.Load()
		s.DamagedTables += d.damagedTables.Load()
	}
}

// damagedConn sends some datagrams with the number of another view.
type damagedConn struct {
	directConn
	damager *Damager
}

func (c *damagedConn) Append(buf []byte, n int, body []byte) (bool, error) {
	c.damager.damageEpoch(buf)
	return c.directConn.Append(buf, n, body)
}
