package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"ringlet/lab/trial"
	"ringlet/transport/gcm"
)

// sealedSize is what a packet of the carrier quic holds where the MTU is 9000.
const sealedSize = 8972

// measureSealing is the limit of every path that encrypts: nothing but the cipher of the carrier quic, over data that
// no cache holds.
func measureSealing(_ context.Context, n *near, _ string) (trial.Figures, error) {
	var key [gcm.KeySize]byte
	_, _ = rand.NewChaCha8([32]byte{}).Read(key[:]) // it never fails
	aead, err := gcm.New(key[:])
	if err != nil {
		return nil, err
	}
	const size = sealedSize // the source is larger: newSource
	out, nonce, sent := make([]byte, 0, size+gcm.Overhead), make([]byte, gcm.NonceSize), uint64(0)
	cpu, began := cpuTime(), time.Now()
	at, until := 0, began.Add(n.cfg.Duration)
	for time.Now().Before(until) {
		for range blockSize / size { // the clock costs as much as some hundred bytes
			if at+size > len(n.source) {
				at = 0
			}
			out = aead.Seal(out[:0], nonce, n.source[at:at+size], nil) // one nonce for all: nobody gets to see them
			at, sent = at+size, sent+uint64(size)
		}
	}
	return trial.Figures{
		"goodput_gbps":      gbps(sent, time.Since(began)),
		"near_cpu_s_per_gb": perGB(cpuTime()-cpu, sent),
	}, nil
}
