package gateway

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"ringlet/testkit/compiled"
	"ringlet/testkit/patiently"
)

// BenchmarkGateway is a client in C that writes 64 bytes with each descriptor, 128 started by one store. An operation
// is a descriptor. The client's own clock gives descriptors/s, without its start. Bytes that go on where those before
// end are joined; those that are 128 apart travel together all the same.
func BenchmarkGateway(b *testing.B) {
	program := compiled.C(b, "../../clients/c", "testdata/stream.c")
	for _, carrier := range []string{"local", "quic"} {
		for _, stride := range []int{64, 128} {
			b.Run(fmt.Sprintf("%s/stride%d", carrier, stride), func(b *testing.B) {
				r := openRig(b, carrier, 1)
				_, path, stop := r.open(1, 1<<20)
				b.ResetTimer()
				_, out := start(b, []string{program}, path, strconv.Itoa(b.N), "64", strconv.Itoa(stride), "128")
				said := strings.TrimSpace(patiently.Receive(b, out, "the program does not end"))
				b.StopTimer()
				ns, err := strconv.ParseFloat(said, 64)
				if err != nil {
					b.Fatal(said)
				}
				b.ReportMetric(float64(b.N)/ns*1e9, "descriptors/s")
				stop()
			})
		}
	}
}
