package recording

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/internal/safeopen"
	"ringlet/testkit/must"
)

// TestNoLinkIsFollowed leaves a symbolic link to a file of somebody else under each name that a passage opens, makes or
// cuts below an output. Whatever the passage says of it, that file stays as it was, and nothing has its content.
func TestNoLinkIsFollowed(t *testing.T) {
	id := SegmentID{Builder: 0, Number: 1, Format: FormatMDF}
	data, index := fillSegment(id, testKey, 0, 3)
	secret := append(append([]byte(nil), data...), "what nobody else may read"...)
	open := id.Name() + OpenSuffix
	for _, k := range []struct {
		link     string
		files    map[string][]byte // besides
		reported bool              // the link is named
	}{
		{open, map[string][]byte{id.Index(): index}, true},
		{id.Name(), map[string][]byte{id.Index(): index}, true},
		{id.Index(), map[string][]byte{open: data}, true},
		{id.Index(), nil, true},
		{tailName(id), map[string][]byte{open: secret, id.Index(): index}, true},
		{tailName(id) + tempSuffix, map[string][]byte{open: secret, id.Index(): index}, false},
		{ManifestName + tempSuffix, map[string][]byte{open: data, id.Index(): index}, false},
		{LockName, map[string][]byte{open: data, id.Index(): index}, true},
	} {
		t.Run(k.link, func(t *testing.T) {
			dir, away := t.TempDir(), filepath.Join(t.TempDir(), "away")
			putFile(t, filepath.Dir(away), "away", secret)
			runDir := openTestRun(t, dir)
			must.OK(t, removeFile(filepath.Join(runDir, k.link)))
			must.OK(t, os.Symlink(away, filepath.Join(runDir, k.link)))
			for name, content := range k.files {
				putFile(t, runDir, name, content)
			}
			found, err := Recover(context.Background(), dir)
			for i := range found {
				err = errors.Join(err, found[i].Err)
			}
			var link *safeopen.SymlinkError
			if errors.As(err, &link) != k.reported || k.reported && link.Path != filepath.Join(runDir, k.link) {
				t.Errorf("it says %v", err)
			}
			if remaining, err := os.ReadFile(away); err != nil || string(remaining) != string(secret) {
				t.Errorf("the file of somebody else has become %q, %v", remaining, err)
			}
			if st, err := os.Lstat(filepath.Join(runDir, k.link)); err == nil && k.reported && st.Mode().IsRegular() {
				t.Errorf("there is a file in place of the link")
			}
		})
	}
}

// TestNoOtherNameIsChanged gives a file of somebody else, which looks like one of a segment, a second name in a run. It
// stays as it was, nothing has its content, and the name is told.
func TestNoOtherNameIsChanged(t *testing.T) {
	id := SegmentID{Builder: 0, Number: 1, Format: FormatMDF}
	data, index := fillSegment(id, testKey, 0, 3)
	open := id.Name() + OpenSuffix
	secret := "what nobody else may read or change"
	for _, k := range []struct {
		name  string
		away  []byte
		files map[string][]byte // besides
	}{
		{open, append(append([]byte(nil), data...), secret...), map[string][]byte{id.Index(): index}},
		{open, []byte(secret), map[string][]byte{id.Index(): index}},
		{id.Index(), append(append([]byte(nil), index...), secret...), map[string][]byte{open: data}},
		{id.Index(), []byte(strings.Repeat(secret, 9)), map[string][]byte{open: nil}},
		{id.Index(), append(append([]byte(nil), index...), secret...), map[string][]byte{id.Name(): data}},
	} {
		dir, away := t.TempDir(), filepath.Join(t.TempDir(), "away")
		putFile(t, filepath.Dir(away), "away", k.away)
		runDir := openTestRun(t, dir)
		must.OK(t, os.Link(away, filepath.Join(runDir, k.name)))
		for name, content := range k.files {
			putFile(t, runDir, name, content)
		}
		found, err := Recover(context.Background(), dir)
		for i := range found {
			err = errors.Join(err, found[i].Err)
		}
		var names *safeopen.HardLinkError
		if !errors.As(err, &names) || names.Path != filepath.Join(runDir, k.name) {
			t.Errorf("%s: it says %v", k.name, err)
		}
		if remaining, err := os.ReadFile(away); err != nil || string(remaining) != string(k.away) {
			t.Errorf("%s: the file of somebody else has become %q, %v", k.name, remaining, err)
		}
		if tails, _ := filepath.Glob(filepath.Join(runDir, "*"+TailSuffix+"*")); tails != nil {
			t.Errorf("%s: %v is made", k.name, tails)
		}
	}
}

// TestALinkInPlaceOfARun: a run is not recorded where a link leads to.
func TestALinkInPlaceOfARun(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	must.OK(t, os.Symlink(away, RunDir(dir, 7)))
	_, err := OpenRun(dir, Manifest{Run: 7, Key: testKey, Format: FormatMDF, Packing: 10}, true)
	var link *safeopen.SymlinkError
	if !errors.As(err, &link) || link.Path != RunDir(dir, 7) {
		t.Errorf("%v", err)
	}
	if made, err := os.ReadDir(away); err != nil || len(made) > 0 {
		t.Errorf("%v was made where the link leads to, %v", made, err)
	}
	_, err = OpenRun(dir, Manifest{Run: 8, Key: testKey, Format: FormatMDF, Packing: 10}, true)
	must.OK(t, err)
	if found, err := Recover(context.Background(), dir); err != nil || len(found) != 1 || !errors.As(found[0].Err, &link) {
		t.Errorf("to recover it is %v, %v", found, err)
	}
	_, err = Verify(context.Background(), dir, VerifyOptions{})
	if !errors.As(err, &link) || link.Path != RunDir(dir, 7) {
		t.Errorf("to verify it is %v", err)
	}
}

// TestMergeAndVerifyFollowNoLink: the data of a segment, its index, and what a merge writes to.
func TestMergeAndVerifyFollowNoLink(t *testing.T) {
	for _, of := range []string{"data", "index", "merging", "merging index", "merging manifest"} {
		t.Run(of, func(t *testing.T) {
			dir := t.TempDir()
			r := newRig(t, dir, FormatMEP)
			id := r.closed(0, mep(0, 1), mep(1, 1))
			r.closed(1, mep(2, 1))
			runDir, dst := r.done(), filepath.Join(dir, "all.mep")
			at := map[string]string{
				"data": filepath.Join(runDir, id.Name()), "index": filepath.Join(runDir, id.Index()),
				"merging": dst + mergingSuffix, "merging index": dst + mergingSuffix + IndexSuffix,
				"merging manifest": dst + mergingSuffix + manifestSuffix,
			}[of]
			away := filepath.Join(t.TempDir(), "away")
			if err := os.Rename(at, away); err != nil {
				putFile(t, filepath.Dir(away), "away", []byte("of somebody else"))
			}
			before, err := os.ReadFile(away)
			must.OK(t, err)
			must.OK(t, os.Symlink(away, at))
			_, err = Merge(context.Background(), runDir, dst, MergeOptions{Overwrite: true})
			if err == nil || !strings.Contains(err.Error(), filepath.Base(at)) ||
				!strings.Contains(err.Error(), "is a symbolic link") && !strings.Contains(err.Error(), "remove it") {
				t.Errorf("the merge says %v", err)
			}
			if of == "data" || of == "index" {
				if v := verified(t, runDir, VerifyOptions{}); !strings.Contains(said(v), "is a symbolic link") {
					t.Errorf("verify says %s", said(v))
				}
			}
			if after, err := os.ReadFile(away); err != nil || string(after) != string(before) {
				t.Errorf("the file of somebody else has become %q, %v", after, err)
			}
		})
	}
}
