package recording

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of files in the directory of a run.
const (
	ManifestName = "run.json"
	LockName     = "run.lock"
	ReserveName  = "run.room" // room on the disk for the manifest until it has the verdict
	IndexSuffix  = ".idx"
	OpenSuffix   = ".open" // of a segment that is being written, or that a killed process left
	TailSuffix   = ".tail" // of the bytes that Recover found after the last whole MEP
	// SegmentsSuffix follows the name of a single output file in the name of the directory with its segments, until they
	// are merged.
	SegmentsSuffix = ".segments"
	runPrefix      = "run-"
)

// Format is the format of a segment's data.
type Format uint32

// Formats. The numbers stand in indexes.
const (
	FormatMEP Format = 1 // MEPs, each as it was built, without gaps
	FormatMDF Format = 2 // MDF records, one for each event
	FormatMFP Format = 3 // the MFPs of the MEPs, without MEP headers
)

var formatNames = map[Format]string{FormatMEP: "mep", FormatMDF: "mdf", FormatMFP: "mfp"}

// Valid says whether f is one of the formats.
func (f Format) Valid() bool { return formatNames[f] != "" }

func (f Format) String() string {
	if n := formatNames[f]; n != "" {
		return n
	}
	return fmt.Sprintf("format(%d)", uint32(f))
}

// ParseFormat returns the format named s: mep, mdf or mfp.
func ParseFormat(s string) (Format, error) {
	for f, n := range formatNames {
		if s == n {
			return f, nil
		}
	}
	return 0, fmt.Errorf("output format %q is not known: it is one of mep, mdf, mfp", s)
}

// MarshalText is String.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is ParseFormat.
func (f *Format) UnmarshalText(b []byte) (err error) {
	*f, err = ParseFormat(string(b))
	return err
}

// ChooseFormat returns the format of a file that is to be written: the requested one; for auto, the one of the ending
// of its name, and MDF if it has none. It refuses an unknown ending, and an ending of another format than the
// requested one.
func ChooseFormat(path, requested string) (Format, error) {
	ending := strings.TrimPrefix(filepath.Ext(strings.TrimLeft(filepath.Base(path), ".")), ".")
	by, err := ParseFormat(ending)
	switch known := err == nil; {
	case requested != "auto" && known && ending != requested:
		return 0, fmt.Errorf("%s ends with .%s, and the format is %s: give it the ending .%[3]s", path, ending, requested)
	case requested != "auto":
		return ParseFormat(requested)
	case ending == "":
		return FormatMDF, nil
	case !known:
		return 0, fmt.Errorf("%s has the ending .%s, which is none of .mdf, .mep and .mfp: give it one of them, or say the "+
			"format", path, ending)
	}
	return by, nil
}

// RunDir returns the directory of a run in an output directory.
func RunDir(dir string, run uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%s%06d", runPrefix, run))
}

// ParseRunDir reads the number of a run from the name of its directory.
func ParseRunDir(dir string) (run uint32, ok bool) {
	digits, ok := strings.CutPrefix(filepath.Base(dir), runPrefix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), ok && err == nil && filepath.Base(RunDir("", uint32(n))) == filepath.Base(dir)
}

// A SegmentID names a segment in its run.
type SegmentID struct {
	Builder int    // index of the builder unit
	Number  int    // from 1
	Format  Format // of the data
}

// compare orders segments by builder unit and number.
func (s SegmentID) compare(o SegmentID) int {
	return cmp.Or(cmp.Compare(s.Builder, o.Builder), cmp.Compare(s.Number, o.Number), cmp.Compare(s.Format, o.Format))
}

// baseName returns the name without a suffix: bu0-00001.
func (s SegmentID) baseName() string { return fmt.Sprintf("bu%d-%05d", s.Builder, s.Number) }

// Name returns the name of the closed segment: bu0-00001.mdf.
func (s SegmentID) Name() string { return s.baseName() + "." + s.Format.String() }

// Index returns the name of its index: bu0-00001.idx.
func (s SegmentID) Index() string { return s.baseName() + IndexSuffix }

// ParseSegment parses the name of a segment. open says that the segment has not been closed.
func ParseSegment(name string) (id SegmentID, open, ok bool) {
	name, open = strings.CutSuffix(name, OpenSuffix)
	base, ext, _ := strings.Cut(name, ".")
	format, err := ParseFormat(ext)
	if id, ok = parseBase(base); !ok || err != nil {
		return SegmentID{}, false, false
	}
	id.Format = format
	return id, open, true
}

// parseIndex parses the name of an index. The format is in the index, not in its name.
func parseIndex(name string) (id SegmentID, ok bool) {
	base, ok := strings.CutSuffix(name, IndexSuffix)
	if !ok {
		return SegmentID{}, false
	}
	return parseBase(base)
}

// parseBase parses the name of a segment without its suffix.
func parseBase(base string) (id SegmentID, ok bool) {
	builder, number, _ := strings.Cut(strings.TrimPrefix(base, "bu"), "-")
	b, errB := strconv.ParseUint(builder, 10, 31)
	n, errN := strconv.ParseUint(number, 10, 31)
	id = SegmentID{Builder: int(b), Number: int(n)}
	return id, errB == nil && errN == nil && n > 0 && id.baseName() == base
}

func lockPath(runDir string) string     { return filepath.Join(runDir, LockName) }
func manifestPath(runDir string) string { return filepath.Join(runDir, ManifestName) }
