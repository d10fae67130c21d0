package transport

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"ringlet/internal/decimal"
)

// Damage says how much goes wrong on purpose, to show that each kind is found, counted, and repaired (NIC-crossbar
// §3.1.6). Headers and bodies are damaged as they arrive, before anything is opened, so that the seal of the carrier
// must find it. An epoch is damaged before the datagram is sealed: it comes as one of a peer of another view. A row of
// the export table is damaged for one look at it.
type Damage struct {
	HeaderShare float64 // share of packets of which a bit of the header is turned over
	BodyShare   float64 // share of packets of which a sealed bit is turned over
	EpochShare  float64 // share of datagrams that are sent with the number of another view
	TableShare  float64 // share of datagrams whose window is looked up under a generation that it does not have
}

// maxDamage is the largest share: more is no damage that a link is made for.
const maxDamage = 0.5

// ParseDamage reads kinds and shares, such as header=1e-4,body=1e-4,epoch=1e-4,table=1e-4. Nothing is no damage.
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

// DamagesPackets says that something is damaged which only the seal of a carrier can find.
func (d Damage) DamagesPackets() bool { return d.HeaderShare > 0 || d.BodyShare > 0 }

// A Damager damages what goes over one link, and counts it.
type Damager struct {
	// immutable
	shares Damage

	// owned by who opens packets, by who sends, and by who receives what was opened
	recvRand, sendRand, tableRand *rand.Rand

	damagedHeaders, damagedBodies, damagedEpochs, damagedTables atomic.Uint64
}

// newDamager makes one; nil where nothing is to be damaged.
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

// DamagePacket turns a bit over, now and then, of a packet that has come and is not opened yet: of its header, the
// bytes from id to body, or of what is sealed behind it. It allocates nothing.
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

// damageEpoch changes the number of the view, now and then, in the head of a datagram that is about to be sealed.
func (d *Damager) damageEpoch(head []byte) {
	if d.sendRand.Float64() < d.shares.EpochShare {
		d.damagedEpochs.Add(1)
		binary.LittleEndian.PutUint16(head[viewOffset:],
			binary.LittleEndian.Uint16(head[viewOffset:])+1+uint16(d.sendRand.IntN(1<<16-1)))
	}
}

// viewOffset is where a datagram has the number of its view (docs/format/wire.md).
const viewOffset = 2

// addStats adds what was damaged.
func (d *Damager) addStats(s *Stats) {
	if d != nil {
		s.DamagedHeaders += d.damagedHeaders.Load()
		s.DamagedBodies += d.damagedBodies.Load()
		s.DamagedEpochs += d.damagedEpochs.Load()
		s.DamagedTables += d.damagedTables.Load()
	}
}

// damagedConn sends datagrams of other views.
type damagedConn struct {
	directConn
	damager *Damager
}

func (c *damagedConn) Append(buf []byte, n int, body []byte) (bool, error) {
	c.damager.damageEpoch(buf)
	return c.directConn.Append(buf, n, body)
}
