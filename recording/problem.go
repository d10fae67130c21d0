package recording

import (
	"fmt"

	"ringlet/internal/plural"
)

// ProblemKind is a way in which a recording is not as its manifest says.
type ProblemKind string

// Kinds of problems.
const (
	// BeingWritten: a live process has the segment open. What is in it so far can be read.
	BeingWritten ProblemKind = "being written"
	// LeftOpen: the process that wrote the segment is gone. Recover closes it.
	LeftOpen ProblemKind = "left open"
	// Unlisted: a closed segment is not in the manifest, because its writer was killed between the two. Recover lists it.
	Unlisted ProblemKind = "not in the manifest"
	// MissingFile: a segment that the manifest lists, or an index, is not there.
	MissingFile ProblemKind = "missing file"
	// WrongSize: the segment has more or fewer bytes than the manifest says.
	WrongSize ProblemKind = "wrong size"
	// WrongCounts: manifest and index contradict each other.
	WrongCounts ProblemKind = "index contradicts manifest"
	// DamagedIndex: an index cannot be read, or an entry of it is spoiled.
	DamagedIndex ProblemKind = "damaged index"
	// DamagedData: the bytes of a MEP are not those that were written.
	DamagedData ProblemKind = "damaged data"
	// WrongContent: the bytes are those that were written, but are not what they should be.
	WrongContent ProblemKind = "wrong content"
	// MissingFragments: the bytes are those that were written, fragments are missing in them, and the verdict does not say
	// so.
	MissingFragments ProblemKind = "missing fragments"
	// ForeignFile: the file belongs to another run.
	ForeignFile ProblemKind = "file of another run"
	// Unreadable: the system refuses to read the file.
	Unreadable ProblemKind = "unreadable"
)

// isRecoverable says that Recover mends it.
func (k ProblemKind) isRecoverable() bool { return k == LeftOpen || k == Unlisted }

// A Problem is one thing that is wrong with a file of a recording.
type Problem struct {
	Kind   ProblemKind `json:"kind"`
	File   string      `json:"file"`             // its name in the directory of the run
	Events *Range      `json:"events,omitempty"` // those concerned, where they are known
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
	More   uint64    `json:"more,omitempty"` // beyond those listed
}

// add lists a problem while there is room.
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

// count is how many there are.
func (p *Problems) count() uint64 { return uint64(len(p.Listed)) + p.More }

// contains tells whether one of the kind is listed.
func (p *Problems) contains(kind ProblemKind) bool {
	for i := range p.Listed {
		if p.Listed[i].Kind == kind {
			return true
		}
	}
	return false
}
