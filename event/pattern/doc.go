// Package pattern is the rule by which a readout unit generates data and a builder unit checks it.
//
// It stands for two ideas of the founding documents. LHCb-EB §V.A measures an event builder with generated
// packets whose fragment sizes follow three Poissonian distributions, one per group of sub-detectors, or one constant
// size. L1-farm §7.5 puts an identity into every data word, from which the receiver of a wrong word sees its sender,
// its event and its place. Here sizes and words are one function of (seed, source, event): the sender stores nothing,
// the receiver recomputes everything, and no list of sent data has to travel.
//
// # The rule
//
//	key(source)  = mix(seed + source·C1)                 mix is the finaliser of splitmix64
//	h            = mix(key(source) + event·C1)
//	size         = table(group of source)[h >> 52]       the inverse distribution, 4096 steps
//	word i       = h + i·C2                              little-endian, the last one cut to the size
//	padding      = zero
//
// The table holds the sizes at the quantiles (q+½)/4096 of the Poisson distribution, in 16 bits each: where sizes
// spread over more than 65535 bytes, in steps of a power of two above the smallest. Its tails are therefore cut at the
// quantiles 1/8192 and 1−1/8192 (±3.7 σ), so that MaxSize and MaxMFP are strict bounds. New computes the table with
// multiplications and divisions alone, each rounded by itself: every machine gets the same table.
//
// # Groups of the LHCb model
//
// A source belongs to the group (global source id mod 3): rich, calo/velo/muon, SciFi/UT, with 0.28, 0.33 and 0.39 of
// the event. With three sources per readout unit each unit holds one of each, and the means are 0.84, 0.99 and 1.17 of
// FragmentSize. If the number of sources is no multiple of three, the groups keep their shares of the event and get
// other means: a group's mean is FragmentSize · sources · share / (sources of the group). With fewer than three sources
// the shares of the existing groups are scaled to a sum of one. In each case the mean over all sources is FragmentSize.
//
// # What the caller must do
//
// Both sides make one Pattern with New from the same Config (every field enters the rule), which any number of
// goroutines may share. A readout unit calls FillMFP, a builder unit CheckMFP. Neither allocates, except for the error
// of a mismatch.
//
// # What it does not promise
//
// The words are distinct and well mixed, not random: each is the one before plus a constant. The data has no physics.
package pattern
