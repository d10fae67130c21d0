package transport_test

import (
	"testing"
	"testing/synctest"

	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/simnet"
)

func TestParseDamage(t *testing.T) {
	for text, want := range map[string]transport.Damage{
		"": {}, "header=1e-4": {HeaderShare: 1e-4}, "epoch=0.5,body=0,header=0.25": {HeaderShare: 0.25, EpochShare: 0.5},
		"table=0.125": {TableShare: 0.125},
	} {
		if got, err := transport.ParseDamage(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{",", "body", "body=", "body=x", "body=-1", "body=0.6", "body=NaN", "row=0.1",
		"body=0.1,body=0.1", "body=0.1,", " body=0.1"} {
		if got, err := transport.ParseDamage(text); err == nil || got != (transport.Damage{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func FuzzParseDamage(f *testing.F) {
	for _, text := range []string{"", "header=1e-4,body=1e-4,epoch=1e-4,table=1e-4", "body=Inf", "=", "epoch=0x1p-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := transport.ParseDamage(text)
		for _, share := range []float64{d.HeaderShare, d.BodyShare, d.EpochShare, d.TableShare} {
			if !(share >= 0 && share <= 0.5) || err != nil && share != 0 {
				t.Errorf("%q: %+v, %v", text, d, err)
			}
		}
	})
}

// TestStaleEpochsAreRefusedAndRepaired: each datagram of another view is refused and counted, and what it brought comes
// all the same.
func TestStaleEpochsAreRefusedAndRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, simnet.Faults{}, func(c *transport.Config) { c.Damage.EpochShare, c.DropSeed = 0.1, 3 })
		defer w.close()
		w.connect()
		mesh(w, 1)
		var made, refused uint64
		for _, n := range w.nodes {
			s := n.ep.Stats()
			made, refused = made+s.DamagedEpochs, refused+s.DatagramsStale
		}
		if made == 0 || made != refused {
			t.Errorf("%d datagrams of another view sent, %d refused", made, refused)
		}
		if n := testing.AllocsPerRun(100, func() { w.nodes[0].ep.LinkStats(1) }); n > 0 { // a sample reads it
			t.Errorf("the counters of a link are read with %v allocations", n)
		}
	})
}

// TestStaleRowsAreRefusedAndRepaired: each look at a damaged row of the export table is refused and counted, and what
// the datagram brought comes all the same, to its place alone.
func TestStaleRowsAreRefusedAndRepaired(t *testing.T) {
	for name, change := range map[string]func(*transport.Config){
		"tables":               func(c *transport.Config) { c.Damage.TableShare = 0.1 },
		"tables and epochs":    func(c *transport.Config) { c.Damage.TableShare, c.Damage.EpochShare = 0.1, 0.1 },
		"tables, and losses":   func(c *transport.Config) { c.Damage.TableShare, c.DropShare = 0.1, 0.1 },
		"half of all look-ups": func(c *transport.Config) { c.Damage.TableShare = 0.5 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, simnet.Faults{}, func(c *transport.Config) { c.DropSeed = 3; change(c) })
				defer w.close()
				w.connect()
				mesh(w, 1)
				var made, refused uint64
				for _, n := range w.nodes {
					made, refused = made+n.ep.Stats().DamagedTables, refused+n.table.Violations(shmem.StaleGen)
				}
				if made == 0 || made != refused {
					t.Errorf("%d rows damaged, %d look-ups refused", made, refused)
				}
			})
		})
	}
}
