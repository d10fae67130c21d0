package quic

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// TestLargest finds the packet size of paths that carry some sizes, and lose or refuse others.
func TestLargest(t *testing.T) {
	refused := errors.New("refused here")
	for _, tc := range []struct {
		name            string
		carries, leaves int // bytes that the path carries, and that this host sends
		from            int // try in which something leaves this host for the first time
		want            int
		says            string
	}{
		{name: "all", carries: 9000, leaves: 9000, want: 8972},
		{name: "a narrow path", carries: 1500, leaves: 9000, want: 1472},
		{name: "a narrow interface", carries: 9000, leaves: 1500, want: 1472},
		{name: "a host that sends only later", carries: 9000, leaves: 9000, from: 3, want: 8972},
		{name: "a path that drops all", leaves: 9000, says: "drops packets by"},
		{name: "a host that sends none", carries: 9000, says: "can be sent to b: refused here"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &expressConn{conn: &conn{name: "b"}, probeAnswers: make(chan int, 64)}
				try := -1
				got, err := c.probePacketSize(t.Context(), context.Background(), []int{8972, 1472, 1200}, func(size int) error {
					if size == 8972 {
						try++
					}
					if size > tc.leaves || try < tc.from {
						return refused
					}
					if size <= tc.carries {
						c.probeAnswers <- size
					}
					return nil
				})
				if got != tc.want || (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%d, %v", got, err)
				}
				if tc.says != "" && try != probeTries-1 {
					t.Errorf("it was given up in try %d", try)
				}
			})
		})
	}
}
