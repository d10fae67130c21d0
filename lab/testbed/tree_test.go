package testbed

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestFatTree: a packet to another leaf takes the spine of the port of its destination. Two flows from a leaf over the
// same spine conflict on its link; by two spines they do not, nor within a leaf.
func TestFatTree(t *testing.T) {
	// Hosts n0 and n1 are on leaf 0, n2 and n3 on leaf 1, n4 and n5 on leaf 2.
	b := newBed(t, Spec{Hosts: 6, Leaves: 3, Spines: 2, Rate: 10e6, Queue: 8 << 10})
	var c []*net.UDPConn
	for host := range 6 {
		c = append(c, socket(t, b, host))
	}
	link := func(leaf, spine int) TreeLink { return counted(t, b).links[leaf*2+spine] }
	endFree := flood(t, c[3], 1000, c[0])  // by spine 1
	endOther := flood(t, c[4], 1000, c[1]) // by spine 0
	eventually(t, "packets pass", func() bool {
		return link(0, 1).ToSpine.Packets > 200 && link(1, 1).ToLeaf.Packets > 200 && link(0, 0).ToSpine.Packets > 200 &&
			link(2, 0).ToLeaf.Packets > 200
	})
	endFree()
	for _, l := range counted(t, b).links {
		if l.ToSpine.Dropped+l.ToLeaf.Dropped > 0 {
			t.Errorf("a link with one flow dropped: %+v", l)
		}
	}
	_ = c[0].SetWriteDeadline(time.Time{})
	flood(t, c[2], 1000, c[0]) // by spine 0, too
	eventually(t, "the link that two flows share drops", func() bool { return link(0, 0).ToSpine.Dropped > 0 })
	endOther()
	for _, p := range ports(t, b) {
		if p.ToHost.Dropped > 0 {
			t.Errorf("%+v dropped", p)
		}
	}
	var table strings.Builder
	r := newReport(b.spec, nil)
	if err := r.count(b, counters{ports: make([]Port, 6), links: make([]TreeLink, 6)}); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "fat tree of 3 leaves and 2 spines") || r.Dropped == 0 {
		t.Errorf("%d dropped\n%s", r.Dropped, &table)
	}
}
