package source

import (
	"fmt"
	"math"
	"math/bits"

	"ringlet/event"
	"ringlet/event/placing"
)

// How large blocks of live data may become. The fragments' sizes are not known in advance: the scheduler cuts a MEP
// that would have more bytes before it has packing events.
const (
	minWindow = 4096 // events that are matched at a time
	// of a source, unless slot-size says so: writes of that size reach the full rate
	maxSourceBytes = 1 << 20
	maxLiveBytes   = 64 << 20 // of all sources in a MEP, unless slot-size says so, while what they declare allows it
)

// matchWindow is how many events are matched at a time, a power of two.
func matchWindow(packing int) int { return 1 << bits.Len(uint(max(4*packing, minWindow)-1)) }

// sourceBytes is how many bytes the fragments of each source may have in a block, padding included: room for the
// largest fragment that each declares, and the same more for all.
func sourceBytes(s *Settings, inputs []Input) ([]int, error) {
	sources := len(inputs)
	each := make([]int, sources)
	least := event.MEPHeaderSize(sources)
	for i := range inputs {
		if err := inputs[i].checkWrap(matchWindow(s.Packing)); err != nil {
			return nil, err
		}
		each[i] = inputs[i].paddedMax()
		least += each[i] + inputs[i].headerBytes(s.Packing)
	}
	if s.Live.SlotBytes == 0 {
		for i := range each {
			each[i] = max(each[i], min(maxSourceBytes, maxLiveBytes/sources))
		}
	} else if s.Live.SlotBytes < least {
		return nil, &ConfigError{"slot-size", fmt.Sprintf("a slot of %d bytes has no room for a fragment of each of %d "+
			"sources, as large as they declare (%d bytes, where ?max= does not say it): make it %d at least", s.Live.SlotBytes,
			sources, event.MaxNarrowFragment, least)}
	} else {
		for i := range each {
			each[i] += (s.Live.SlotBytes - least) / sources &^ (wordBytes - 1)
		}
	}
	most := event.MEPHeaderSize(sources)
	for ru, block := range blockBytes(s, inputs, each) {
		most += block
		if block > maxPartBytes {
			return nil, &ConfigError{"input", fmt.Sprintf("the part of readout unit %d may have %d bytes, and less than 4 GiB "+
				"is possible: lower max of its sources or slot-size, or take more readout units", ru, block)}
		}
	}
	if most > math.MaxInt32 {
		return nil, &ConfigError{"input", fmt.Sprintf("a MEP may have %d bytes, and less than 2 GiB can be read back: lower "+
			"max of sources, or slot-size", most)}
	}
	return each, nil
}

// maxPartBytes is the largest part of a MEP: a window has less than 4 GiB, and parts are padded.
const maxPartBytes = math.MaxUint32 - 1<<16

// blockBytes is how many bytes a block of each readout unit may have.
func blockBytes(s *Settings, inputs []Input, each []int) []int {
	blocks := make([]int, s.Division.Units())
	for ru := range blocks {
		for i := range s.Division.SourceCount(ru) {
			id := s.Division.FirstSource(ru) + i
			blocks[ru] += each[id] + inputs[id].headerBytes(s.Packing)
		}
	}
	return blocks
}

// stageBytes is the size of the stage of a source whose fragments have each bytes in a block: those of two blocks or,
// where a fragment may be large, of one; and the waste at the end of the ring, with a fragment that comes meanwhile.
func stageBytes(in *Input, each int) int {
	if in.isWide() {
		return each + 2*in.paddedMax()
	}
	return 2*each + 2*event.MaxNarrowFragment
}

func measureLive(s Settings) (RunNeeds, error) {
	division, blocks, _, err := LiveBlocks(s)
	needs := RunNeeds{Division: division}
	for _, block := range blocks {
		needs.MaxMEPBytes += block
	}
	return needs, err
}

// LiveBlocks returns which sources the readout units of a run with live sources have, how many bytes a block of each
// readout unit may have, and how many bytes of fragments wait there at most before they are in a block.
func LiveBlocks(s Settings) (division placing.Division, blocks, waiting []int, err error) {
	inputs, err := ParseInputs(s.Input)
	if err == nil {
		s.Division, err = divide(len(inputs), s.RUs, s.Division, "the input")
	}
	if err != nil {
		return placing.Division{}, nil, nil, err
	}
	each, err := sourceBytes(&s, inputs)
	if err != nil {
		return placing.Division{}, nil, nil, err
	}
	waiting = make([]int, s.Division.Units())
	for id := range inputs {
		waiting[s.Division.UnitOf(id)] += stageBytes(&inputs[id], each[id]) + inputs[id].feedBytes()
	}
	return s.Division, blockBytes(&s, inputs, each), waiting, nil
}

// feedBytes is how many bytes the feed of a source has in memory at least: those with narrow fragments touch little of
// theirs.
func (in *Input) feedBytes() int {
	if in.isWide() && in.Kind.Held != nil {
		n, _ := in.Kind.Held(in.Address, in.MaxFragment) // CheckInput reports the error
		return n
	}
	return 2*in.paddedMax() + 1<<20
}
