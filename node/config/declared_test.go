package config

import (
	"testing"
)

// TestDeclaredSizesSetTheMemory: slots and retention buffers have room for what the sources declare.
func TestDeclaredSizesSetTheMemory(t *testing.T) {
	c := Default()
	c.Input, c.Nodes, c.Output = "tcp:127.0.0.1:9?max=100MiB", 1, "x.mep"
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	m, err := c.MemoryNeeds(Role{})
	if least := int64(c.Slots) * 100 << 20; err != nil || m.Slots < least || m.Retention < least {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestLargeGeneratedFragments: slots have room for them.
func TestLargeGeneratedFragments(t *testing.T) {
	for _, model := range []string{"lhcb", "poisson", "constant"} {
		c := Default()
		c.FragmentSize, c.Packing, c.FragmentModel, c.Output = 3<<20, 10, model, "x.mep"
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		m, err := c.MemoryNeeds(Role{})
		if least := int64(c.Slots) * 12 * 10 * 3 << 20; err != nil || m.Slots < least {
			t.Errorf("%s: %+v, %v", model, m, err)
		}
	}
}
