package recording

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
)

// A disk that a run has filled would have no room for a manifest that says so. OpenRun therefore reserves room in a
// file beside the manifest, and this file replaces the manifest when the disk has no other room.

// manifestReserve is how many bytes are reserved beyond the present size of the manifest: a verdict has some 10 KiB,
// and a segment 300 bytes.
const manifestReserve = 256 << 10

func reservePath(runDir string) string { return filepath.Join(runDir, ReserveName) }

// reserveManifest reserves space on the disk for the growth of a manifest that has the given number of bytes now. If
// the disk has less, it reserves what there is. If at least half of the reserve exists already, it does nothing.
func reserveManifest(runDir string, bytes int) (err error) {
	f, err := safeopen.OpenFileNoFollow(reservePath(runDir), os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil || st.Size() >= int64(bytes)+manifestReserve/2 {
		return err
	}
	for more := int64(manifestReserve); more > 0; more -= manifestReserve / 16 {
		err = unix.Fallocate(int(f.Fd()), 0, 0, int64(bytes)+more)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) { // this file system cannot reserve
			_, err = f.WriteAt(make([]byte, int64(bytes)+more), 0)
			err = errors.Join(err, f.Sync())
		}
		if !isDiskFull(err) {
			break
		}
	}
	return err
}

// replaceFromReserve writes a manifest into the reserved file, and renames that to the manifest, so that a whole
// manifest is there at any moment. If the reserve is too small, it returns the error before.
func replaceFromReserve(runDir string, manifest []byte, before error) error {
	f, err := safeopen.OpenFileNoFollow(reservePath(runDir), os.O_WRONLY, 0)
	if err != nil {
		return before
	}
	st, err := f.Stat()
	if err == nil && st.Size() < int64(len(manifest)) {
		err = before
	}
	if err == nil {
		_, err = f.WriteAt(manifest, 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(manifest)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return before
	}
	if err := os.Rename(reservePath(runDir), manifestPath(runDir)); err != nil {
		return err
	}
	_ = reserveManifest(runDir, len(manifest)) // the old manifest's bytes are free, unless another process has taken them
	return SyncDir(runDir)
}
