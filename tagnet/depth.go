package tagnet

// Depth is the fill level of a queue with its high-water marks (seed document 001, registers CSR 8, 11 and 12 of the
// scheduler).
type Depth struct {
	Now      uint64
	Max      uint64    // most ever
	Capacity uint64    // entries the queue can take
	Crossed  [4]uint64 // how often it rose to 25, 50, 75 and 87.5 % of the capacity
	Full     uint64    // how often it rose to the capacity: the overflow flag is Full > 0

	marks [5]uint64 // entries at which the marks stand; the last is the capacity
	level uint8     // marks at or below Now
}

func newDepth(capacity uint64) Depth {
	d := Depth{Capacity: capacity}
	for i, eighths := range [5]uint64{2, 4, 6, 7, 8} {
		// Rounded up, so that the mark says "at least this share"; capacity is far below 2^61.
		d.marks[i] = max(1, (capacity*eighths+7)/8)
	}
	return d
}

func (d *Depth) set(v uint64) {
	if v == d.Now {
		return
	}
	d.Now = v
	if v > d.Max {
		d.Max = v
	}
	for d.level < 5 && v >= d.marks[d.level] {
		if d.level == 4 {
			d.Full++
		} else {
			d.Crossed[d.level]++
		}
		d.level++
	}
	for d.level > 0 && v < d.marks[d.level-1] {
		d.level--
	}
}

// usage is the highest mark ever reached in the code of the founding document's register ev_buff_fifo_usedw_log: 0x0
// below 25 %, then 0x1, 0x3, 0x7, and 0xF from 87.5 % on.
func (d *Depth) usage() uint8 {
	var code uint8
	for i := range d.Crossed {
		if d.Crossed[i] > 0 {
			code |= 1 << i
		}
	}
	return code
}
