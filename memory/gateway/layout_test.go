package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ringlet/memory"
	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/testkit/transcript"
)

// TestLayoutGolden holds the bytes of docs/format/door.md: what the gateway writes, what clients in C and Python write,
// and what each reads of the other.
func TestLayoutGolden(t *testing.T) {
	for language, program := range programs {
		t.Run(language, func(t *testing.T) {
			command := program(t, "layout")
			d, err := New(Config{Name: "layout", Data: minData, Dir: must.MemoryDir(t)})
			must.OK(t, err)
			s, err := d.open(context.Background())
			must.OK(t, err)
			mem := s.bytes
			s.complete(0, answer{outcome: outcomeDone, hasValue: true, value: 0x7172737475767778})
			s.complete(1, answer{outcome: outcomePartial, cause: Cause(memory.ErrDenied)})
			s.complete(2, answer{outcome: outcomeUnknown, cause: Cause(memory.ErrTimeout)})
			s.wakeWord.Store(1)
			s.workBell.AddWaiter()
			_, out := start(t, command, s.seg.Path())
			said := patiently.Receive(t, out, "the program does not end")
			if s.clientPID.Swap(0) == 0 || shmem.Word64(mem, gatewayPIDAt).Swap(0) == 0 {
				t.Error("a process has no number")
			}
			var b strings.Builder
			rows := func(what string, from, to int) {
				fmt.Fprintf(&b, "%s\n", what)
				for at := from; at < to; at += 16 {
					if row := mem[at : at+16]; [16]byte(row) != [16]byte{} {
						fmt.Fprintf(&b, "%05x  % x  % x\n", at, row[:8], row[8:])
					}
				}
			}
			rows("header", 0, ringAt)
			rows("descriptors", ringAt, wordsAt)
			rows("completion words", wordsAt, dataAt)
			fmt.Fprintf(&b, "the client reads, as its number, the cause and the value\n%sthe door reads\n", said)
			for p := range uint64(3) {
				var r request
				bytes := s.descriptor(p)
				r.decode(p, &bytes)
				fmt.Fprintln(&b, &r)
			}
			transcript.Expect(t, "testdata/layout.golden", b.String())
			must.OK(t, s.close(false))
		})
	}
}
