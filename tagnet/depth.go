package tagnet

import (
	"google.golang.org/protobuf/proto"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// depth is the fill level of a queue with its high-water marks (TagNet-farm §VII.C, registers CSR 8, 11 and 12 of the
// scheduler). It keeps them in the message that tells them.
type depth struct {
	*tagnetv1.Depth
	marks        [5]uint64 // entries at which the marks stand; the last is the capacity
	marksReached uint8     // marks at or below Now
}

func newDepth(capacity uint64) depth {
	d := depth{Depth: &tagnetv1.Depth{Capacity: capacity, Crossed: make([]uint64, 4)}}
	for i, eighths := range [5]uint64{2, 4, 6, 7, 8} {
		// Rounded up, so that the mark says "at least this share"; capacity is far below 2^61.
		d.marks[i] = max(1, (capacity*eighths+7)/8)
	}
	return d
}

func (d *depth) set(v uint64) {
	if v == d.Now {
		return
	}
	d.Now = v
	if v > d.Max {
		d.Max = v
	}
	for d.marksReached < 5 && v >= d.marks[d.marksReached] {
		if d.marksReached == 4 {
			d.Full++
		} else {
			d.Crossed[d.marksReached]++
			d.Usage |= 1 << d.marksReached // the code of register ev_buff_fifo_usedw_log (TagNet-farm §VII.C)
		}
		d.marksReached++
	}
	for d.marksReached > 0 && v < d.marks[d.marksReached-1] {
		d.marksReached--
	}
}

// message is what it is now.
func (d *depth) message() *tagnetv1.Depth { return proto.CloneOf(d.Depth) }
