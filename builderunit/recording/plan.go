package recording

import "fmt"

// headerState is what the first bytes of an index say.
type headerState int

const (
	headerTorn    headerState = iota // missing, short, or with a wrong checksum
	headerOurs                       // of this run and this segment
	headerForeign                    // of another run or another segment
	headerUnknown                    // of a version that this program does not know
)

// facts is what is there of a segment whose writer is gone.
type facts struct {
	id     SegmentID
	open   bool // data under the name of an open segment
	closed bool // data under the name of a closed one
	// the data have both names: open is false then. A renaming by link and unlink was killed in between
	bothNames     bool
	listed        bool  // it stands in the manifest
	size          int64 // of the data
	tailSize      int64 // size of the file .tail; -1 if there is none
	tailCopied    bool  // the file .tail is what follows keep in the data
	header        headerState
	indexSize     int64
	provenEntries int64 // entries from the first on that the data agree with
	provenEnd     int64 // end of the last of these MEPs in the data
}

// indexEnd is where the index ends when it has the right entries and nothing more.
func (f *facts) indexEnd() int64 { return HeaderBytes + f.provenEntries*EntryBytes }

// step is one change of the files of a segment. Each may be the last one before a kill, and each may be done a second
// time.
type step string

// Steps. They are done in the order in which decideSteps gives them.
const (
	writeHeader step = "write the header of the index anew"
	copyTail    step = "copy what follows the last whole MEP to a file .tail"
	cutData     step = "cut the data behind the last whole MEP"
	cutIndex    step = "cut the index behind the entry of the last whole MEP"
	syncBoth    step = "synchronise data and index"
	dropName    step = "remove the second name of the data"
	giveName    step = "rename it to a closed segment"
	moveData    step = "rename all of it to a file .tail"
	removeData  step = "remove the data, of which there are none"
	removeIndex step = "remove the index"
	listSegment step = "list it in the manifest"
)

// decideSteps says what is to be done with a segment, and in a sentence what was found. It never takes a step that
// makes a byte of data unreachable, and after any number of its steps it decides on the others.
func decideSteps(f facts) (steps []step, what string) {
	switch {
	case f.header == headerForeign:
		return nil, "its index is that of another run or another segment: left as it is"
	case f.header == headerUnknown:
		return nil, "its index is of a version that this program does not know: left as it is"
	case f.open && (f.closed || f.listed):
		return nil, "it is there as closed and as open: left as it is"
	case f.listed && f.bothNames:
		return []step{dropName}, "it was closed; the name that it had before is removed"
	case f.listed:
		return nil, ""
	case f.closed:
		return decideClosed(f)
	case !f.open:
		return decideLoneIndex(f)
	}
	return decideOpen(f)
}

// decideLoneIndex is for an index without data: its writer or a Recover was killed in between, or somebody took the
// data away.
func decideLoneIndex(f facts) ([]step, string) {
	switch {
	case f.tailSize >= 0:
		return []step{removeIndex}, fmt.Sprintf("it held no whole MEP; its %d bytes are in %s", f.tailSize, tailName(f.id))
	case f.indexSize < HeaderBytes+EntryBytes:
		return []step{removeIndex}, "it was begun and holds nothing: removed"
	}
	return nil, "its index is there and its data are not: left as it is"
}

// decideClosed is for a closed segment that is not in the manifest.
func decideClosed(f facts) (steps []step, what string) {
	if f.provenEntries == 0 || f.provenEnd != f.size {
		return nil, fmt.Sprintf("it is closed and not in the manifest, but its index proves only %d of its %d bytes: "+
			"left as it is", f.provenEnd, f.size)
	}
	if f.bothNames {
		steps = append(steps, dropName)
	}
	if f.header != headerOurs {
		steps = append(steps, writeHeader)
	}
	if f.indexSize != f.indexEnd() {
		steps = append(steps, cutIndex)
	}
	return append(steps, listSegment), fmt.Sprintf("it was closed and not yet in the manifest: %d MEPs, now listed",
		f.provenEntries)
}

// decideOpen is for a segment that was being written.
func decideOpen(f facts) (steps []step, what string) {
	behind := f.size - f.provenEnd
	switch {
	case f.size == 0:
		if f.indexSize > HeaderBytes { // or else a kill before the last step would leave entries without data
			steps = []step{cutIndex}
		}
		return append(steps, removeData, removeIndex), "it was begun and holds nothing: removed"
	case f.tailSize >= 0 && behind > 0 && (f.provenEntries == 0 || !f.tailCopied):
		return nil, fmt.Sprintf("%s is in the way: left as it is", tailName(f.id))
	case f.provenEntries == 0:
		return []step{moveData, removeIndex},
			fmt.Sprintf("no MEP in it is whole; its %d bytes are in %s", f.size, tailName(f.id))
	}
	if f.header != headerOurs {
		steps = append(steps, writeHeader)
	}
	if behind > 0 && f.tailSize < 0 {
		steps = append(steps, copyTail)
	}
	if behind > 0 {
		steps = append(steps, cutData)
	}
	if f.indexSize != f.indexEnd() {
		steps = append(steps, cutIndex)
	}
	what = fmt.Sprintf("its writer was killed: %d MEPs in %d bytes are whole, now closed", f.provenEntries, f.provenEnd)
	if tail := max(behind, f.tailSize); tail > 0 {
		what += fmt.Sprintf("; the %d bytes behind them are in %s", tail, tailName(f.id))
	}
	return append(steps, syncBoth, giveName, listSegment), what
}

func tailName(id SegmentID) string { return id.Name() + TailSuffix }
