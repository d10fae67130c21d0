package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files lists files by names. A file stands for itself; a directory stands for the files in it, and in its directories,
// that Inspect reads, such as segments of a run, by name. The error names a directory without such files.
func Files(names []string) (files []string, err error) {
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil || !st.IsDir() {
			files = append(files, name) // opening it reports the error
			continue
		}
		found, err := listFiles(name, maxDirDepth)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s is a directory in which no file ends in .mdf, .mep, .mfp or .raw, and none is "+
				"a segment that "+
				"a process writes: name a file, or the directory of a run", name)
		}
		files = append(files, found...)
	}
	return files, nil
}

// maxDirDepth is how many levels of directories are searched: an output, and its runs.
const maxDirDepth = 2

// listFiles lists the files of a directory, and of directories in it.
func listFiles(dir string, deep int) (files []string, err error) {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir() && deep > 1:
			below, err := listFiles(path, deep-1)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case e.Type().IsRegular() && slices.Contains(inspectedExtensions, strings.ToLower(filepath.Ext(extension(path)))):
			files = append(files, path)
		}
	}
	return files, nil
}

// inspectedExtensions are the endings of files that Inspect reads.
var inspectedExtensions = []string{".mdf", ".mep", ".mfp", ".raw"}
