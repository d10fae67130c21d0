package config

import (
	"strings"
	"testing"
)

// TestBacklog holds what a backlog needs, and that a full one has some closed segments to drain.
func TestBacklog(t *testing.T) {
	for _, tt := range []struct {
		size         Bytes
		output, want string // empty: it is good
	}{
		{1 << 20, "mep:x/", ""},
		{1 << 20, "mep:x/,discard:", ""},
		{1 << 20, "", "backlog: a second filter needs events as they were built"},
		{1 << 20, "mdf:x/", "backlog: a second filter needs events as they were built"},
		{1 << 20, "x.mep", "backlog: a second filter needs events as they were built"},
		{1, "mep:x/", "backlog: 1 is less than 256KiB"},
	} {
		c := Default()
		c.DiskBacklog, c.Output = tt.size, tt.output
		err := c.Complete()
		if tt.want == "" && (err != nil || c.BacklogSegment() != tt.size/4) {
			t.Errorf("%v and %q: %v", tt.size, tt.output, err)
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v and %q: %v", tt.size, tt.output, err)
		}
	}
}
