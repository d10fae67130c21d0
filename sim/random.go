package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// A RandomStream has the random numbers of one component.
type RandomStream struct{ *rand.Rand }

// RandomStream returns the random numbers of the component of that name: a PCG whose state follows only from the seed
// and the name.
func (s *Sim) RandomStream(name string) *RandomStream {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, s.seed), name...))
	return &RandomStream{rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])))}
}

// Exp draws an exponential time with that mean.
func (r *RandomStream) Exp(mean Time) Time { return Time(math.Round(r.ExpFloat64() * float64(mean))) }

// Poisson draws a Poissonian count with that mean: exactly below 30, by the normal approximation above.
func (r *RandomStream) Poisson(mean float64) int {
	if mean >= 30 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	n, p := 0, r.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= r.Float64()
	}
	return n
}
