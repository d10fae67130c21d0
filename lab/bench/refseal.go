package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"ringlet/lab/trial"
	"ringlet/transport/gcm"
)

// sealedSize is the content of a packet of the carrier quic if the MTU is 9000.
const sealedSize = 8972

// measureSealing measures the limit of every path that encrypts: only the cipher of the carrier quic, over more data
// than caches hold.
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
		for range blockSize / size { // reading the clock costs as much as sealing some hundred bytes
			if at+size > len(n.source) {
				at = 0
			}
			out = aead.Seal(out[:0], nonce, n.source[at:at+size], nil) // one nonce for all packets: they never leave the process
			at, sent = at+size, sent+uint64(size)
		}
	}
	return trial.Figures{
		"goodput_gbps":      gbps(sent, time.Since(began)),
		"near_cpu_s_per_gb": perGB(cpuTime()-cpu, sent),
	}, nil
}
