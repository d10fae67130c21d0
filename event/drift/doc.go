// Package drift finds live sources whose event numbers have slipped against those of the others, by the sizes of their
// fragments: where many particles cross a detector, all its sources have large fragments. It is pure: sizes of events
// go in, findings come out. It has no clock and does no I/O.
//
// It stands for what a shifter sees in a correlation plot of two detectors: a band that fades
// (docs/design/045-live-sources.md, section Drift).
//
// # What the caller must do, in order
//
//  1. New with the names of the sources.
//  2. Add with each event that is looked at. Events may come in any order, but those of a block (BlockEvents numbers)
//     should come close together; a block is compared when it is whole, or when later ones crowd it out.
//  3. Findings: which sources are apart now. Slips counts how often one has moved.
//
// # How it decides
//
// Numbers that are all a multiple of a step apart are divided by it, once 512 events show that.
//
// Each size becomes one bit: is it above the median of its source in its block? For two sources and each lag from -8 to
// 8 events the bits are compared over the last 256, 768, 2,048 and 8,192 events. Let n events have na bits set in one
// source, nb in the other, and nab in both. If the sources are independent, nab is as if na of n were drawn without
// replacement, and by Serfling (1974, Ann. Stat. 2, 39, corollary 1.1)
//
//	P(|nab - na nb/n| >= d) <= 2 exp(-2 d² / (m (1 - (m-1)/n))),   m the number drawn: na, n-na, nb or n-nb
//
// The exponent must exceed evidenceNeeded, which is 40. A block has at most 256 pairs × 17 lags × 4 windows of tests,
// so that independent sources are told to be apart with a probability of less than 0.2 % in 10^12 events. (Between
// blocks this takes the events as alike and independent.) A lag counts only if its correlation also exceeds that at
// every other lag by what is needed: sizes that follow the intensity of a beam are alike at all lags, and say nothing.
// With half of the bits set, what is needed is 8.9/√n, and chance gives other lags some 2.5/√n. So a slip is found in
// 256 events for a correlation of the bits of 0.71, in 768 for 0.41, in 2,048 for 0.25, in 8,192 for 0.13. Two sources
// whose correlation was seen at one lag and has gone are compared at up to 1,024 events to either side, over 768
// events, with more evidence for the more tests.
//
// # What it does not promise
//
// Sources of constant or independent sizes are never apart. At most 256 pairs are compared: with more than 23 sources
// each one has some partners only. What slips where nobody looks, between two blocks, is found later.
package drift
