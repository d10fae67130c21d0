package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ringlet/internal/safeopen"
)

// A nameInUseError says that a name that Merge needs belongs to a file of something other than this merge.
type nameInUseError struct {
	Path string
	What string // what is known of the file
	Hint string
}

func (e *nameInUseError) Error() string {
	return fmt.Sprintf("%s exists%s: %s", e.Path, e.What, e.Hint)
}

// findMade finds the file that an earlier merge has made; nil: there is none. isOurs says that a merge of this run has
// at least begun to give the files their names.
func (m *merge) findMade(ctx context.Context) (merged *Merged, isOurs bool, err error) {
	manifest := m.c.Manifest
	if m.c.Merged == nil {
		manifest = nil
		if b, err := readBounded(m.dst + manifestSuffix); err == nil {
			manifest, _ = parseManifest(b) // without one the file is not ours
		}
	}
	isOurs = manifest != nil && manifest.Key == m.c.Manifest.Key && manifest.Merged != nil &&
		manifest.Merged.Path == m.dst
	if !isOurs || !pathExists(m.dst) {
		return nil, isOurs, nil
	}
	st, err := safeopen.StatNoFollow(m.dst)
	if err != nil {
		return nil, true, err
	}
	merged = manifest.Merged
	if st.Size() == merged.Bytes && merged.MEPs == m.c.MEPSet.MEPs() && merged.Events == m.c.MEPSet.Events() {
		crc, err := m.sumFile(ctx, m.dst, merged.Bytes)
		if err != nil || formatCRC(crc) == merged.CRC {
			return merged, true, err
		}
	}
	switch {
	case m.c.Merged != nil:
		return nil, true, &Problem{
			Kind: DamagedData,
			File: m.dst,
			Text: "it is not as its manifest says; what is left of the segments in " + m.dir + " stays",
		}
	case !m.o.Overwrite:
		return nil, true, &nameInUseError{Path: m.dst, What: " and is not this run in order",
			Hint: "give another path, or --overwrite"}
	}
	return nil, true, nil
}

// checkNames refuses to write to, or replace, files that belong to no merge of this run.
func (m *merge) checkNames(isOurs bool) error {
	journal, err := m.readJournal()
	if err != nil {
		return err
	}
	isOurs = isOurs || journal
	temporary := m.dst + mergingSuffix
	index, err := readHeader(temporary + IndexSuffix)
	began := isOurs || err == nil && index.Key == m.c.Manifest.Key
	if !began && err == nil {
		return &nameInUseError{
			Path: temporary + IndexSuffix,
			What: fmt.Sprintf(" and belongs to a merge of run %d that is not finished", index.Run),
			Hint: "finish that one, or remove the files " + temporary + "*, or give another path",
		}
	}
	for _, path := range []string{temporary, temporary + IndexSuffix} {
		if st, err := os.Lstat(path); !began && err == nil && st.Size() > 0 {
			return &nameInUseError{Path: path, Hint: "it is not of a merge of this run: remove it, or give another path"}
		}
	}
	if m.o.Overwrite {
		return nil
	}
	if st, err := os.Lstat(m.dst); err == nil && !st.Mode().IsRegular() {
		return &nameInUseError{
			Path: m.dst,
			What: " and is " + safeopen.FileKind(st.Mode()),
			Hint: "give another path",
		}
	}
	for _, suffix := range []string{"", IndexSuffix, manifestSuffix} {
		if (suffix == "" || !isOurs) && pathExists(m.dst+suffix) {
			return &nameInUseError{Path: m.dst + suffix, Hint: "give another path, or --overwrite"}
		}
	}
	return nil
}

// readJournal says whether an older version of the program has begun a merge of this run to the file: that version
// wrote the owner of the temporary file to a journal.
func (m *merge) readJournal() (isOurs bool, err error) {
	var journal struct {
		Run  uint32 `json:"run"`
		Key  string `json:"key"`
		From string `json:"from"` // directory of the run
	}
	path := m.dst + mergingSuffix + manifestSuffix
	b, err := readBounded(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case json.Unmarshal(b, &journal) != nil || journal.Key == "":
		return false, &nameInUseError{Path: path,
			Hint: "it is not of a merge of Ringlet: give it another name, or remove it"}
	case journal.Key != m.c.Manifest.Key.String():
		return false, &nameInUseError{
			Path: m.dst + mergingSuffix,
			What: fmt.Sprintf(" and belongs to a merge of run %d in %s that is not finished", journal.Run, journal.From),
			Hint: "finish that one, or remove the files " + m.dst + mergingSuffix + "*, or give another path",
		}
	}
	return true, nil
}
