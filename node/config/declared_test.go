package config

import (
	"strings"
	"testing"
)

// TestDeclaredSizesSetTheMemory: slots and retention buffers have room for what the sources declare, and MDF has not.
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
	c = Default()
	c.Input, c.Nodes, c.Output = "tcp:127.0.0.1:9?max=100MiB", 1, "x.mdf"
	if err := c.Complete(); err == nil || !strings.Contains(err.Error(), "65527") {
		t.Error(err)
	}
}
