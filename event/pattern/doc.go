// Package pattern is the rule by which Ringlet's generated data is made, and by which a builder checks it.
//
// It stands for two ideas of the founding documents. LHCb-EB §V.A measures an event builder with generated
// packets whose fragment sizes follow three Poissonian distributions, one per group of sub-detectors, or one constant
// size. L1-farm §7.5 puts an identity into every data word, so that the receiver can tell which sender, which event
// and which place a wrong word came from. Here both are one function of (seed, source, event): the sender stores
// nothing, the receiver recomputes everything, and no list of what was sent has to travel.
//
// # The rule
//
//	key(source)  = mix(seed + source·C1)                 mix is the finaliser of splitmix64
//	h            = mix(key(source) + event·C1)
//	size         = table(group of source)[h >> 52]       the inverse distribution, 4096 steps
//	word i       = h + i·C2                              little-endian, the last one cut to the size
//	padding      = zero
//
// The table holds the sizes at the quantiles (q+½)/4096 of the Poisson distribution. Its tails are therefore cut at the
// quantiles 1/8192 and 1−1/8192 (±3.7 σ), which makes MaxSize and MaxMFP exact bounds and not likely ones. It is
// computed with multiplications and divisions alone, rounded one by one, so that every machine computes the same table.
//
// # Groups of the LHCb model
//
// A source belongs to the group (global source id mod 3): rich, calo/velo/muon, SciFi/UT, with 0.28, 0.33 and 0.39 of
// the event. With three sources per readout unit each unit holds one of each, and the means are 0.84, 0.99 and 1.17 of
// FragmentSize. Where the groups cannot be equally large the shares of the event are kept and the means give way: a
// group's mean is FragmentSize · sources · share / (sources of the group). With fewer than three sources the shares of
// the groups present are scaled to sum to one. Either way the mean over all sources is FragmentSize.
//
// # What the caller must do
//
// Make one Pattern with New, from the same Config on both sides (every field of it enters the rule), and share it
// freely: it never changes. A readout unit calls FillMFP, a builder unit CheckMFP. Neither allocates, except for the
// error of a mismatch.
//
// # What it does not promise
//
// The words are distinct and well mixed, not random: each is the one before plus a constant. The data has no physics.
package pattern
