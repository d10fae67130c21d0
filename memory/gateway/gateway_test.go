package gateway

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"ringlet/testkit/patiently"
)

// TestPrograms holds that programs in C and Python do all that a gateway does, over loads and stores and over a
// network, those of an earlier release, too.
func TestPrograms(t *testing.T) {
	all := maps.Clone(programs)
	maps.Copy(all, olderPrograms)
	for language, program := range all {
		for _, carrier := range []string{"local", "quic"} {
			t.Run(language+" "+carrier, func(t *testing.T) {
				command := program(t, "use")
				r := openRig(t, carrier, 1)
				d, path, _ := r.open(1, 1<<20)
				_, out := start(t, command, path)
				want := strings.Join([]string{
					"size 262144", "import 1 cause 1", "same 1", "add 0", "swap 5", "compare 9", "outside 1 cause 3",
					"misaligned 1 cause 5", "notify 1", "await 1", "await late 1 cause 9", "list 1", "old 1",
					"left 1 cause 37", "closed 1", "",
				}, "\n")
				if got := patiently.Receive(t, out, "the program does not end"); got != want {
					t.Errorf("it printed\n%s\nnot\n%s", got, want)
				}
				if !bytes.Equal(r.mem[65536:65536+3000*32], bytes.Repeat([]byte{0x5A}, 3000*32)) {
					t.Error("bytes of 3000 writes are not in place")
				}
				until(t, "end of the client", func() bool { return d.snapshot().Detached == 1 })
			})
		}
	}
}
