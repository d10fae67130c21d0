package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ringlet/recording"
)

// keptRuns is how many runs stay in a directory; their files are checked again after each later run.
const keptRuns = 4

// A seal is the size and the checksum of a closed file when it was first seen.
type seal struct {
	size int64
	crc  uint32
}

// A sealLog keeps the seals of closed files in outputs: no later run may change or remove them.
type sealLog struct {
	sealByPath map[string]seal // by path
}

// verify checks that every closed file is unchanged, and adds the seals of new ones. It returns how many it has
// checked.
func (l *sealLog) verify(dirs []string) (again int, problems []string, err error) {
	if l.sealByPath == nil {
		l.sealByPath = map[string]seal{}
	}
	now := map[string]seal{}
	for _, dir := range dirs {
		if err := closedFiles(dir, now); err != nil {
			return 0, nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(l.sealByPath)) {
		if !slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(path, d+"/") }) {
			continue
		}
		again++
		was := l.sealByPath[path]
		switch is, there := now[path]; {
		case !there:
			problems = append(problems, path+" was closed, and is gone")
		case is != was:
			problems = append(problems, fmt.Sprintf("%s was closed, and has changed: %d bytes with CRC %08x, now %d with %08x",
				path, was.size, was.crc, is.size, is.crc))
		}
	}
	maps.Copy(l.sealByPath, now)
	return again, problems, nil
}

// closedFiles reads all closed segments in an output directory.
func closedFiles(dir string, into map[string]seal) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if _, open, ok := recording.ParseSegment(e.Name()); !ok || open {
			return nil
		}
		into[path], err = sealOf(path)
		return err
	})
}

func sealOf(path string) (s seal, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer func() { _ = f.Close() }()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	s.size, err = io.Copy(sum, f)
	s.crc = sum.Sum32()
	return s, err
}

// forget removes all but the newest keep runs, so that the soak does not fill the disk.
func (l *sealLog) forget(dirs []string, keep int) error {
	var errs []error
	for _, dir := range dirs {
		runs, err := recording.Runs(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, old := range runs[:max(0, len(runs)-keep)] {
			errs = append(errs, os.RemoveAll(old))
			maps.DeleteFunc(l.sealByPath, func(path string, _ seal) bool { return strings.HasPrefix(path, old+"/") })
		}
	}
	return errors.Join(errs...)
}
