package ctl

import (
	"bufio"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/testkit/must"
)

// BenchmarkViewer is what an event costs its viewer: to decode the message that it came in with 24 others, of six
// sources each, and to write it as a line of JSON.
func BenchmarkViewer(b *testing.B) {
	for _, x := range []struct {
		name string
		data []byte
	}{{"sizes", nil}, {"data", make([]byte, 133)}} {
		b.Run(x.name, func(b *testing.B) {
			var m tapv1.Samples
			for n := range uint64(25) {
				e := &tapv1.Sample{Event: 1_000_000 + n, Run: 3, Mep: 250, Attempt: 1, Builder: "n0"}
				for source := range uint32(6) {
					e.Fragments = append(e.Fragments, &tapv1.Fragment{Source: source, Type: 63, Size: 133, Data: x.data})
				}
				m.Events = append(m.Events, e)
			}
			wire, err := proto.Marshal(&m)
			must.OK(b, err)
			to := tapOutput{out: bufio.NewWriterSize(io.Discard, 1<<16), errOut: io.Discard}
			b.ReportAllocs()
			for b.Loop() {
				var got tapv1.Samples
				must.OK(b, proto.Unmarshal(wire, &got))
				must.OK(b, to.write(&got))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(m.Events)), "ns/event")
		})
	}
}
