package recording

import "fmt"

// headerState is what Recover learns from the header of an index.
type headerState int

const (
	headerTorn    headerState = iota // missing, short, or with a wrong checksum
	headerOurs                       // of this run and this segment
	headerForeign                    // of another run or another segment
	headerUnknown                    // of a version that this program does not know
)

// segmentFacts are the files of a segment whose writer is gone.
type segmentFacts struct {
	id            SegmentID
	hasOpenData   bool // data file under the name of an open segment
	hasClosedData bool // data file under the name of a closed one
	// the data have both names, and hasOpenData is false: a renaming by link and unlink was killed in between
	bothNames     bool
	listed        bool  // it is in the manifest
	dataSize      int64 // of the data
	tailSize      int64 // size of the file .tail; -1 if there is none
	tailCopied    bool  // the file .tail is a copy of the data after provenEnd
	header        headerState
	indexSize     int64
	provenEntries int64 // entries from the first on that match the data
	provenEnd     int64 // end of the last of these MEPs in the data
}

// indexEnd is the size of an index that has the proven entries and nothing more.
func (f *segmentFacts) indexEnd() int64 { return HeaderBytes + f.provenEntries*EntryBytes }

// recoveryStep is one change of the files of a segment. A kill may come after each, and each may be done a second
// time.
type recoveryStep string

// Steps, in no order: decideSteps returns them in the order in which they are done.
const (
	stepWriteHeader recoveryStep = "write the header of the index anew"
	stepCopyTail    recoveryStep = "copy what follows the last whole MEP to a file .tail"
	stepCutData     recoveryStep = "cut the data after the last whole MEP"
	stepCutIndex    recoveryStep = "cut the index after the entry of the last whole MEP"
	stepSyncBoth    recoveryStep = "synchronise data and index"
	stepDropName    recoveryStep = "remove the second name of the data"
	stepGiveName    recoveryStep = "rename it to a closed segment"
	stepMoveData    recoveryStep = "rename all of it to a file .tail"
	stepRemoveData  recoveryStep = "remove the data, of which there are none"
	stepRemoveIndex recoveryStep = "remove the index"
	stepListSegment recoveryStep = "list it in the manifest"
)

// decideSteps decides what to do with a segment, and says in a sentence what was found. No step makes a byte of data
// unreachable; after any of the steps, decideSteps returns the remaining ones.
func decideSteps(f segmentFacts) (steps []recoveryStep, what string) {
	switch {
	case f.header == headerForeign:
		return nil, "its index is that of another run or another segment: left as it is"
	case f.header == headerUnknown:
		return nil, "its index is of a version that this program does not know: left as it is"
	case f.hasOpenData && (f.hasClosedData || f.listed):
		return nil, "it is there as closed and as open: left as it is"
	case f.listed && f.bothNames:
		return []recoveryStep{stepDropName}, "it was closed; the name that it had before is removed"
	case f.listed:
		return nil, ""
	case f.hasClosedData:
		return decideClosed(f)
	case !f.hasOpenData:
		return decideLoneIndex(f)
	}
	return decideOpen(f)
}

// decideLoneIndex decides for an index without data: its writer or a Recover was killed, or a user removed the data.
func decideLoneIndex(f segmentFacts) ([]recoveryStep, string) {
	switch {
	case f.tailSize >= 0:
		return []recoveryStep{stepRemoveIndex}, fmt.Sprintf("it held no whole MEP; its %d bytes are in %s", f.tailSize,
			tailName(f.id))
	case f.indexSize < HeaderBytes+EntryBytes:
		return []recoveryStep{stepRemoveIndex}, "it was begun and holds nothing: removed"
	}
	return nil, "its index is there and its data are not: left as it is"
}

// decideClosed decides for a closed segment that is not in the manifest.
func decideClosed(f segmentFacts) (steps []recoveryStep, what string) {
	if f.provenEntries == 0 || f.provenEnd != f.dataSize {
		return nil, fmt.Sprintf("it is closed and not in the manifest, but its index proves only %d of its %d bytes: "+
			"left as it is", f.provenEnd, f.dataSize)
	}
	if f.bothNames {
		steps = append(steps, stepDropName)
	}
	if f.header != headerOurs {
		steps = append(steps, stepWriteHeader)
	}
	if f.indexSize != f.indexEnd() {
		steps = append(steps, stepCutIndex)
	}
	return append(steps, stepListSegment), fmt.Sprintf("it was closed and not yet in the manifest: %d MEPs, now listed",
		f.provenEntries)
}

// decideOpen decides for a segment that was being written.
func decideOpen(f segmentFacts) (steps []recoveryStep, what string) {
	behind := f.dataSize - f.provenEnd
	switch {
	case f.dataSize == 0:
		if f.indexSize > HeaderBytes { // otherwise a kill before the last step would leave entries without data
			steps = []recoveryStep{stepCutIndex}
		}
		return append(steps, stepRemoveData, stepRemoveIndex), "it was begun and holds nothing: removed"
	case f.tailSize >= 0 && behind > 0 && (f.provenEntries == 0 || !f.tailCopied):
		return nil, fmt.Sprintf("%s is in the way: left as it is", tailName(f.id))
	case f.provenEntries == 0:
		return []recoveryStep{stepMoveData, stepRemoveIndex},
			fmt.Sprintf("no MEP in it is whole; its %d bytes are in %s", f.dataSize, tailName(f.id))
	}
	if f.header != headerOurs {
		steps = append(steps, stepWriteHeader)
	}
	if behind > 0 && f.tailSize < 0 {
		steps = append(steps, stepCopyTail)
	}
	if behind > 0 {
		steps = append(steps, stepCutData)
	}
	if f.indexSize != f.indexEnd() {
		steps = append(steps, stepCutIndex)
	}
	what = fmt.Sprintf("its writer was killed: %d MEPs in %d bytes are whole, now closed", f.provenEntries, f.provenEnd)
	if tail := max(behind, f.tailSize); tail > 0 {
		what += fmt.Sprintf("; the %d bytes behind them are in %s", tail, tailName(f.id))
	}
	return append(steps, stepSyncBoth, stepGiveName, stepListSegment), what
}

func tailName(id SegmentID) string { return id.Name() + TailSuffix }
