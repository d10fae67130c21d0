// Package ejfat is a source of live fragments that come as EJFAT's UDP segments (docs/format/ejfat.md), as E2SAR's
// segmenter sends them or a load balancer forwards them.
//
// UDP loses, repeats and reorders datagrams. The feed hands out a fragment when all of its bytes have come. If a part
// does not come in time, the feed counts the fragment as lost, and the readout unit finds it missing. So fragments
// come in the order in which they became complete, which need not be that of their events.
package ejfat
