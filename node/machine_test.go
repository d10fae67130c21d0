package node

import "testing"

func TestKernelDrops(t *testing.T) {
	const table = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  270: 0100007F:1F0B 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 41 2 0000000000000000 17
  271: 00000000:1F0C 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 42 2 0000000000000000 4
rubbish
  272: zz:zz 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 42 2 0000000000000000 4
`
	for port, want := range map[int]uint64{0x1F0B: 17, 0x1F0C: 4, 80: 0} {
		if got := dropsIn(table, port); got != want {
			t.Errorf("port %d: %d, not %d", port, got, want)
		}
	}
}
