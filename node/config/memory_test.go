package config

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func composed(t *testing.T, settings ...string) Completed {
	t.Helper()
	c, err := Compose("test", nil, settings)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// many are the names of so many nodes.
func many(n int) string {
	var names strings.Builder
	for i := range n {
		fmt.Fprintf(&names, "n%d ", i)
	}
	return names.String()
}

func TestCheckAgainstNodes(t *testing.T) {
	const gib = 1 << 30
	n := func(names string, memory, shm int64, machine string) (out []NodeFacts) {
		for name := range strings.FieldsSeq(names) {
			out = append(out, NodeFacts{
				Name:        name,
				MachineID:   machine,
				MemoryBytes: memory,
				ShmBytes:    shm,
			})
		}
		return out
	}
	// 1 GiB of slots on each node, and retention buffers of MBs.
	large := []string{"nodes=2", "slots=4", "slot-size=256MiB"}
	for name, tc := range map[string]struct {
		settings []string
		facts    []NodeFacts
		says     []string // none: taken
	}{
		"nothing is known":           {large, nil, nil},
		"enough":                     {large, n("n0 n1", 2*gib, 2*gib, ""), nil},
		"more nodes than are needed": {large, n("n0 n1 n2", 2*gib, 2*gib, ""), nil},
		"sizes are not known":        {large, n("n0 n1", 0, 0, ""), nil},
		"a member is unknown": {[]string{"nodes=2", "members=n0,n7"}, n("n0 n1", 0, 0, ""),
			[]string{"members: n7 is unknown: 2 have joined: n0, n1"}},
		"nobody is there": {[]string{"nodes=1", "members=n0"}, []NodeFacts{},
			[]string{"n0 is unknown: no node has joined"}},
		"too few": {[]string{"nodes=3"}, n("n0", 0, 0, ""),
			[]string{"the shape has 3 nodes, and only n0 has joined"}},
		"two of one name": {[]string{"nodes=2"}, n("n0 n0", 0, 0, ""),
			[]string{"members: two nodes are called n0"}},
		"the scheduler's is unknown": {[]string{"nodes=2", "tagnet-node=n5"}, n("n0 n1", 0, 0, ""),
			[]string{"there is no node called n5: members are n0, n1"}},
		"the scheduler's is not a member": {[]string{"nodes=2", "tagnet-node=n2"}, n("n0 n1 n2", 0, 0, ""),
			[]string{"there is no node called n2: members are n0, n1"}},
		"too little memory": {large, n("n0 n1", gib, 2*gib, ""),
			[]string{"slots: n0 needs 1.0 GiB (1.0 GiB of slots, ", "more than the 1.0 GiB of memory there", "n1 needs"}},
		"too little shared memory": {large, n("n0 n1", 4*gib, gib/2, ""),
			[]string{"n0 needs 1.0 GiB of shared memory, more than the 512.0 MiB of /dev/shm there"}},
		"enough for each, not for all": {large, n("n0 n1", 2*gib, 4*gib, "m"),
			[]string{"slots: n0, n1 need together 2.1 GiB", "or take fewer nodes"}},
		"programs alone are too much": {[]string{"nodes=1000", "slots=2"}, n(many(1000), 64*gib, 0, "m"),
			[]string{"nodes: the 1000 nodes from n0 to n999 need together",
				"of the program itself), more than the 64.0 GiB of memory there: take fewer nodes"}},
		"too many processes": {[]string{"nodes=2"}, []NodeFacts{{Name: "n0", MachineID: "m", MaxTasks: 10},
			{Name: "n1", MachineID: "m", MaxTasks: 10}},
			[]string{"nodes: n0, n1 need together at least 14 processes and threads, more than the 10 that may be there"}},
		"less than a node may take": {append(large, "node-memory=512MiB"), nil,
			[]string{"node-memory: n0 needs", "more than the 512MiB it may take", "node-memory: n1 needs"}},
		"builder units alone need slots": {append(large, "nodes=0", "rus=1", "bus=1", "node-memory=512MiB"), nil,
			[]string{"node-memory: n1 needs"}},
		"names of members": {append(large, "members=x,y", "node-memory=512MiB"), nil,
			[]string{"node-memory: x needs", "node-memory: y needs"}},
		"an output buffer": {append(large, "format=buffer", "output=x"), n("n0 n1", 4*gib, gib+gib/2, ""),
			[]string{"n0 needs 2.0 GiB of shared memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := composed(t, tc.settings...).CheckNodes(tc.facts)
			if (err == nil) != (len(tc.says) == 0) {
				t.Fatalf("%v", err)
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v does not say %q", err, s)
				}
			}
		})
	}
	if err := composed(t, append(large, "nodes=0", "rus=1", "bus=1",
		"node-memory=512MiB")...).CheckNodes(nil); err == nil ||
		strings.Contains(err.Error(), "n0") {
		t.Errorf("%v blames a readout unit for slots", err)
	}
}

func TestNeedsGrowWithSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.Nodes, c.Slots = rapid.IntRange(1, 8).Draw(t, "nodes"), rapid.IntRange(1, 100).Draw(t, "slots")
		c.Packing, c.Prepared = rapid.IntRange(1, 5000).Draw(t, "packing"), rapid.IntRange(0, 100).Draw(t, "prepared")
		c.PhaseEnd = rapid.SampledFrom([]string{"tournament", "none"}).Draw(t, "barrier")
		if err := c.Complete(); err != nil {
			t.Skip(err)
		}
		more := c
		more.Slots++
		for _, r := range c.Roles() {
			a, errA := c.MemoryNeeds(r)
			b, errB := more.MemoryNeeds(r)
			if errA != nil || errB != nil || a.Slots <= 0 || a.Retention <= 0 || b.Slots <= a.Slots ||
				b.Retention < a.Retention || a.Total() != a.Shared()+a.Retention+a.Process {
				t.Fatalf("%v %v, with a slot more %v %v", a, errA, b, errB)
			}
		}
	})
}

func TestComposeRefusesSettings(t *testing.T) {
	for setting, says := range map[string]string{
		"packing":         `"packing" is no setting: write key=value`,
		"=4":              `"=4" is no setting`,
		"pakcing=4":       `pakcing: there is no such setting; the nearest one is "packing"`,
		"packing=many":    `packing: "many" is not a whole number`,
		"packing=":        `packing: "" is not a whole number`,
		"debug.drop=0.7":  "debug.drop: 0.7 is not between 0 and 0.5",
		"members=n0,n0":   "members: two nodes are called n0",
		"discipline=shit": `discipline: "shit" is not one of shift, push, tagring, tagring-wait, pull, free`,
		"slot-size=1kB":   "more than a slot of 1000",
	} {
		if _, err := Compose("", nil, []string{setting}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", setting, err, says)
		}
	}
	_, err := Compose("", nil, []string{"transport=local", "debug.stamps=true"})
	if err == nil || !strings.Contains(err.Error(), "debug.stamps: the carrier local has no packets") {
		t.Errorf("stamps in memory: %v", err)
	}
	c, err := Compose("x", []byte("packing: 100\nseed: 3\n"), []string{"packing=200", " seats = 0,1,2,3 ", "output=",
		"debug.drop=0.1"})
	if err != nil || c.Packing != 200 || c.Seed != 3 || c.Debug.Drop != 0.1 || c.Seats != "0,1,2,3" {
		t.Errorf("%+v, %v", c, err)
	}
}

func FuzzApply(f *testing.F) {
	for _, s := range []string{"packing=1", "debug.drop=0.1", "members=a,b", "=", "slot-size=1 GiB", "groups=0-3;4-7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, setting string) {
		c, err := Compose("", nil, []string{setting})
		if err != nil {
			return
		}
		_ = c.CheckNodes([]NodeFacts{{Name: "n0", MemoryBytes: 1, ShmBytes: 1}})
		if again, err := Compose("", c.Effective(), nil); err != nil || again.Hash() != c.Hash() {
			t.Errorf("%q is in effect as\n%s\nwhich is not read back: %v", setting, c.Effective(), err)
		}
	})
}
