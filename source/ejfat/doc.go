// Package ejfat is a source of live fragments that come as EJFAT's UDP segments (docs/format/ejfat.md), as E2SAR's
// segmenter sends them or a load balancer passes them on.
//
// UDP loses, repeats and reorders. A fragment is handed out when all of its bytes are here; the one of which a part
// does not come in time is counted as lost, and the readout unit finds it missing. So the order in which fragments are
// handed out is that in which they became whole, which need not be that of their events.
package ejfat
