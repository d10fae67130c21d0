package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ringlet/recording"
)

// canary ends a file outside of all outputs, which no tool may change.
const canary = "nobody may change this\n"

// craftedFiles damages a copy of an earlier recording, and lets the tools read it.
func craftedFiles(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
	return h.recording(ctx, d, damage)
}

// links puts symbolic links into a copy of an earlier recording, and lets the tools read it.
func links(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
	return h.recording(ctx, d, replaceByLink)
}

// recording copies an earlier recording, changes files of it with change, and runs the tools on it: no tool may panic,
// hang, exceed the bound of memory or change a file outside of the recording.
func (h *hostileRun) recording(
	ctx context.Context, d *dice, change func(d *dice, file, outside string) error,
) (came map[string]int, err error) {
	h.mu.Lock()
	h.crafted++
	dir := h.c.path(fmt.Sprintf("crafted-%d", h.crafted))
	h.mu.Unlock()
	at, outside := filepath.Join(dir, "output"), filepath.Join(dir, "outside")
	if err := os.CopyFS(at, os.DirFS(h.earlierOutput)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(outside, []byte(canary), 0o600); err != nil {
		return nil, err
	}
	var files []string
	if err := filepath.WalkDir(at, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		return nil, err
	}
	for range 1 + d.IntN(3) {
		if err := change(d, files[d.IntN(len(files))], outside); err != nil {
			return nil, err
		}
	}
	was, err := os.ReadFile(outside)
	if err != nil {
		return nil, err
	}
	came = map[string]int{}
	for _, args := range [][]string{{"verify", at}, {"recover", at}, {"verify", "--full", at},
		{"merge", at, filepath.Join(dir, "merged")}} {
		word, err := h.runTool(ctx, args)
		if err != nil {
			return came, fmt.Errorf("%w; see %s", err, dir)
		}
		came[args[0]+" "+word]++
	}
	if is, err := os.ReadFile(outside); err != nil || !bytes.Equal(is, was) {
		return came, fmt.Errorf("a file outside of the output was changed, from %d to %d bytes; see %s",
			len(was), len(is), dir)
	}
	return came, os.RemoveAll(dir)
}

// damage cuts a file, flips bits in it, writes a huge number into it, appends bytes, or renames a segment as if it were
// open.
func damage(d *dice, file, _ string) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // renamed
	} else if err != nil {
		return err
	}
	switch d.IntN(5) {
	case 0:
		b = b[:d.IntN(len(b)+1)]
	case 1:
		for range 1 + d.IntN(8) {
			if len(b) > 0 {
				b[d.IntN(len(b))] ^= 1 << d.IntN(8)
			}
		}
	case 2:
		if len(b) > 8 {
			binary.LittleEndian.PutUint64(b[d.IntN(min(4096, len(b)-8)):], d.Uint64()>>d.IntN(64))
		}
	case 3:
		b = append(b, d.bytes(d.IntN(1<<16))...)
	case 4:
		if strings.HasSuffix(file, ".mep") {
			return errors.Join(os.Rename(file, file+".open"), unlist(filepath.Dir(file)))
		}
		return os.WriteFile(filepath.Join(filepath.Dir(file), d.pick("bu9-00001.mep.open", "bu9-00001.idx", "run.json.part")),
			d.bytes(d.IntN(1<<16)), 0o600)
	}
	return os.WriteFile(file, b, 0o600)
}

// replaceByLink replaces a file by a link to the file outside, or puts the link beside it under a name that the tools
// use. The link for a segment looks like the open segment of a killed process.
func replaceByLink(d *dice, file, outside string) error {
	at := filepath.Join(filepath.Dir(file), d.pick("bu0-00009.mep.open", "bu0-00009.idx", "run.json.part", "run.lock"))
	if strings.HasSuffix(file, ".mep") {
		at = file + ".open"
	} else if d.chance(50) {
		at = file
	}
	if b, err := os.ReadFile(file); errors.Is(err, fs.ErrNotExist) {
		return nil // replaced already
	} else if err != nil {
		return err
	} else if err := os.WriteFile(outside, append(b, canary...), 0o600); err != nil {
		return err
	}
	if strings.HasPrefix(at, file) {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if at == file+".open" {
		if err := unlist(filepath.Dir(file)); err != nil {
			return err
		}
	}
	if err := os.Symlink(outside, at); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// unlist removes all segments from a manifest, as if the builder units were still writing them.
func unlist(dir string) error {
	path := filepath.Join(dir, recording.ManifestName)
	m, err := recording.Load(dir)
	if err != nil {
		return nil //nolint:nilerr // it is damaged already
	}
	m.Verdict = nil
	for i := range m.Builders {
		m.Builders[i].State, m.Builders[i].Segments = recording.StateWriting, nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// runTool runs a command of the program, and returns a word for its outcome. The error says what the tool must not do:
// it has panicked, hung, or taken too much memory.
func (h *hostileRun) runTool(ctx context.Context, args []string) (word string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, h.c.exe, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, h.c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	if err := h.c.hosts[controlName].runOnThread(cmd.Start); err != nil {
		return "", err
	}
	err = cmd.Wait()
	what := "ringlet " + strings.Join(args, " ")
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s does not end: %w", what, ctx.Err())
	case bytes.Contains(out.Bytes(), []byte("panic:")) || bytes.Contains(out.Bytes(), []byte("fatal error:")):
		return "", fmt.Errorf("%s ended by a panic: %s", what, out.Bytes())
	case usage != nil && uint64(usage.Maxrss)>>10 > h.memoryLimit:
		return "", fmt.Errorf("%s took %d MiB, and %d is the bound (-memory)", what, usage.Maxrss>>10, h.memoryLimit)
	case err != nil:
		return "complains", nil
	}
	return "is content", nil
}
