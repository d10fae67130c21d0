package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// mergingSuffix is put behind the name of a merged file that is not whole yet. Beside it, with manifestSuffix, stands
// whose it is.
const mergingSuffix = ".merging"

// journal says whose a file is that is being merged.
type journal struct {
	Run  uint32 `json:"run"`
	Key  string `json:"key"`
	From string `json:"from"` // directory of the run
}

// A nameInUseError says that a name that Merge needs is taken by a file that is not of this merge.
type nameInUseError struct {
	Path string
	What string // what is known of it
	Hint string
}

func (e *nameInUseError) Error() string {
	return fmt.Sprintf("%s exists%s: %s", e.Path, e.What, e.Hint)
}

// readJournal reads the journal at path; nil says that there is none.
func readJournal(path string) (*journal, error) {
	b, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j := &journal{}
	if json.Unmarshal(b, j) != nil || j.Key == "" {
		return nil, &nameInUseError{Path: path, Hint: "it is not of a merge of Ringlet: give it another name, or remove it"}
	}
	return j, nil
}

// claimNames makes the names of the files that a merge writes its own: it refuses what is not of this merge, and says
// in a journal whose they are before the first of them is made. began tells that an earlier merge of the same run did
// so before.
func (m *merge) claimNames() (began bool, err error) {
	j, err := readJournal(m.path(mergingSuffix + manifestSuffix))
	if err != nil {
		return false, err
	}
	if j != nil && j.Key == m.c.Manifest.Key {
		return true, nil
	}
	if j != nil {
		return false, &nameInUseError{
			Path: m.path(mergingSuffix),
			What: fmt.Sprintf(" and belongs to a merge of run %d in %s that is not finished", j.Run, j.From),
			Hint: "finish that one, or remove both files " + m.path(mergingSuffix) + "*, or give another path",
		}
	}
	if st, err := os.Lstat(m.path(mergingSuffix)); err == nil && st.Size() > 0 {
		return false, &nameInUseError{
			Path: m.path(mergingSuffix),
			Hint: "it is not of a merge of this run: remove it, or give another path",
		}
	}
	b, err := json.Marshal(journal{
		Run:  m.c.Manifest.Run,
		Key:  m.c.Manifest.Key,
		From: m.dir,
	})
	if err != nil {
		return false, err
	}
	return false, replaceFile(m.path(mergingSuffix+manifestSuffix), b)
}
