package quic

import (
	"fmt"
	"testing"

	"ringlet/transport"
	"ringlet/transport/link"
)

func by(c transport.Carrier, s transport.Seal) func(*transport.Config) {
	return func(cfg *transport.Config) { cfg.Carrier, cfg.Seal = c, s }
}

// BenchmarkWrites writes 1 MiB at a time, with 8 under way, between two endpoints of this process.
func BenchmarkWrites(b *testing.B) {
	for name, carry := range map[string]func(*transport.Config){
		"quic":         by(transport.CarrierQUIC, 0),
		"express":      by(transport.CarrierExpress, transport.SealAES),
		"express-open": by(transport.CarrierExpress, transport.SealNone),
	} {
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			ends := endpointsBy(b, nil, carry)
			data := pattern(1)
			b.SetBytes(bulk)
			b.ReportAllocs()
			for i := range b.N {
				if i >= 8 {
					ends[0].outcomes(b, 1)
					<-ends[1].placed
				}
				if err := ends[0].ep.Write(1, link.Write{Ref: ends[1].ref, Data: data}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			s := ends[0].ep.Stats()
			b.ReportMetric(float64(s.DatagramsResent)/float64(max(1, s.DatagramsSent))*100, "%resent")
		})
	}
}
