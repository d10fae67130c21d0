package recording

import (
	"fmt"

	"ringlet/internal/plural"
)

// ProblemKind is a way in which a recording differs from its manifest.
type ProblemKind string

// Kinds of problems.
const (
	// BeingWritten: a live process has the segment open. Its MEPs so far can be read.
	BeingWritten ProblemKind = "being written"
	// LeftOpen: the process that wrote the segment is gone. Recover closes it.
	LeftOpen ProblemKind = "left open"
	// Unlisted: a closed segment is not in the manifest, because its writer was killed after closing it. Recover lists
	// it.
	Unlisted ProblemKind = "not in the manifest"
	// MissingFile: a segment that the manifest lists, or an index, is not there.
	MissingFile ProblemKind = "missing file"
	// WrongSize: the segment has more or fewer bytes than the manifest says.
	WrongSize ProblemKind = "wrong size"
	// WrongCounts: manifest and index contradict each other.
	WrongCounts ProblemKind = "index contradicts manifest"
	// DamagedIndex: an index cannot be read, or one of its entries is damaged.
	DamagedIndex ProblemKind = "damaged index"
	// DamagedData: the bytes of a MEP were changed since they were written.
	DamagedData ProblemKind = "damaged data"
	// WrongContent: the bytes were not changed, but are not what they should be.
	WrongContent ProblemKind = "wrong content"
	// MissingFragments: the bytes were not changed, but fragments are missing in them that the verdict does not name.
	MissingFragments ProblemKind = "missing fragments"
	// ForeignFile: the file belongs to another run.
	ForeignFile ProblemKind = "file of another run"
	// Unreadable: the system refuses to read the file.
	Unreadable ProblemKind = "unreadable"
)

// isRecoverable says that Recover repairs it.
func (k ProblemKind) isRecoverable() bool { return k == LeftOpen || k == Unlisted }

// A Problem is one defect of a file of a recording.
type Problem struct {
	Kind   ProblemKind `json:"kind"`
	File   string      `json:"file"`             // its name in the directory of the run
	Events *Range      `json:"events,omitempty"` // the events concerned, if they are known
	Text   string      `json:"text"`             // what was found
}

func (p *Problem) Error() string {
	if p.Events != nil {
		return fmt.Sprintf("%s: %s: %s: %s", p.File, p.Kind, plural.NamedRange("event", p.Events.From, p.Events.To), p.Text)
	}
	return fmt.Sprintf("%s: %s: %s", p.File, p.Kind, p.Text)
}

// maxListedProblems bounds how many problems of a segment, copies and ranges are listed; the rest are counted.
const maxListedProblems = 64

// Problems is a list of problems with a bound.
type Problems struct {
	Listed []Problem `json:"listed,omitempty"`
	More   uint64    `json:"more,omitempty"` // problems that are not listed
}

// add lists a problem, or counts it if the list is full.
func (p *Problems) add(kind ProblemKind, file string, events *Range, format string, args ...any) {
	if len(p.Listed) == maxListedProblems {
		p.More++
		return
	}
	p.Listed = append(p.Listed, Problem{
		Kind:   kind,
		File:   file,
		Events: events,
		Text:   fmt.Sprintf(format, args...),
	})
}

// count returns how many problems there are.
func (p *Problems) count() uint64 { return uint64(len(p.Listed)) + p.More }

// contains says whether a problem of that kind is listed.
func (p *Problems) contains(kind ProblemKind) bool {
	for i := range p.Listed {
		if p.Listed[i].Kind == kind {
			return true
		}
	}
	return false
}
