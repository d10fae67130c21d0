package config

import (
	"slices"
	"strconv"
	"strings"
)

// Without returns the configuration for the nodes that remain when the nodes of some ranks take no part: remaining
// nodes and units move up in rank and index, and every setting that names ranks or indices follows them. The seat of a
// node that takes no part becomes a dummy, so the others send in the same phases to the same units as before. The
// result has no Members, and is not completed; Compose refuses it if a setting needs a unit that is gone.
func (c Completed) Without(leavesOut func(rank int) bool) Config {
	less := c.Config
	var ranks, rus, bus renumbering
	for rank, role := range c.Roles() {
		out := leavesOut(rank)
		ranks.add(rank, out)
		rus.add(role.RU, out)
		bus.add(role.BU, out)
	}
	less.Nodes, less.RUs, less.BUs, less.Members = ranks.remaining, rus.remaining, bus.remaining, ""
	if c.Seats != "" {
		less.Seats = ranks.renumberSeats(c.SeatRanks())
	}
	if counts := c.Streams.list(); len(counts) > 1 {
		less.Streams = formatCounts(rus.keep(counts))
	}
	less.Sources = 0 // Streams has them
	less.Groups, less.Partitions = bus.renumberSets(c.Groups), bus.renumberSets(c.Partitions)
	if _, weights, err := c.parseNext(); err == nil && weights != nil {
		less.Next = string(formatCounts(bus.keep(weights)))
	}
	if list, share, found := strings.Cut(c.RoI, ":"); c.RoI != "" {
		less.RoI = string(rus.renumberSets(Sets(list)))
		if found {
			less.RoI += ":" + share
		}
	}
	if d := &less.Debug; d.LargeEvery > 0 && d.LargeRU < len(rus.numbers) {
		if d.LargeRU = rus.numbers[d.LargeRU]; d.LargeRU == NoUnit {
			d.LargeRU, d.LargeEvery = 0, 0
		}
	}
	if d := &less.Debug; d.SuspendBUs != suspendAll {
		if d.SuspendBUs = string(bus.renumberSets(Sets(d.SuspendBUs))); d.SuspendBUs == "" {
			d.SuspendEvery, d.SuspendFor = 0, 0
		}
	}
	return less
}

// renumbering has the new number of each rank, or index of a unit, or NoUnit if it is left out.
type renumbering struct {
	numbers   []int
	remaining int
}

// add takes the next number, which may be NoUnit: then there is nothing to renumber.
func (r *renumbering) add(number int, leaveOut bool) {
	switch {
	case number == NoUnit:
	case leaveOut:
		r.numbers = append(r.numbers, NoUnit)
	default:
		r.numbers = append(r.numbers, r.remaining)
		r.remaining++
	}
}

// keep returns the values of those that remain.
func (r *renumbering) keep(values []int) (out []int) {
	for i, v := range values {
		if i < len(r.numbers) && r.numbers[i] != NoUnit {
			out = append(out, v)
		}
	}
	return out
}

// renumberSets leaves out sets of which none remains.
func (r *renumbering) renumberSets(s Sets) Sets {
	var out [][]int
	for _, set := range s.lists() {
		for i, n := range set {
			if set[i] = NoUnit; n < len(r.numbers) {
				set[i] = r.numbers[n]
			}
		}
		if set = slices.DeleteFunc(set, func(n int) bool { return n == NoUnit }); len(set) > 0 {
			out = append(out, set)
		}
	}
	return formatSets(out)
}

// renumberSeats writes seats with the new ranks.
func (r *renumbering) renumberSeats(seats []int) string {
	texts := make([]string, len(seats))
	for i, rank := range seats {
		if texts[i] = "-"; rank != DummySeat && r.numbers[rank] != NoUnit {
			texts[i] = strconv.Itoa(r.numbers[rank])
		}
	}
	return strings.Join(texts, ",")
}
