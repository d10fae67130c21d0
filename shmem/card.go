package shmem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A segment's memory is a memfd of its creator, sealed against shrinking and growing: so no process can remove pages
// that another one has mapped, which would kill that one with SIGBUS. A memfd has no name. The file under a segment's
// name is its card, a small file that says where the memory is. No process reads the card once it has opened the
// memory: cutting it short or removing it only keeps further processes out.
//
// A card is one line, described in docs/format/segment.md:
//
//	ringlet-segment 2 /proc/4711/fd/9 67108864 1 52344
//	                  where           size     device and inode of the memory

const (
	cardMagic   = "ringlet-segment"
	cardVersion = 2
	// maxCard is more than the length of a card with the largest numbers, bytes.
	maxCard = 160
	// memfdName is the beginning of the memory's name in /proc; the segment's name follows.
	memfdName = "ringlet-segment:"
)

// memorySeals are the seals on the memory of every segment.
const memorySeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// card says where a segment's memory is.
type card struct {
	pid, fd  int
	size     int
	dev, ino uint64
}

func (c *card) path() string { return fmt.Sprintf("/proc/%d/fd/%d", c.pid, c.fd) }

func (c *card) String() string {
	return fmt.Sprintf("%s %d %s %d %d %d\n", cardMagic, cardVersion, c.path(), c.size, c.dev, c.ino)
}

// parseCard reads a card. Any other text gives errForeignSegment.
func parseCard(text string) (c card, err error) {
	var word string
	var version int
	line, rest, terminated := strings.Cut(text, "\n")
	n, err := fmt.Sscanf(line, "%s %d /proc/%d/fd/%d %d %d %d",
		&word, &version, &c.pid, &c.fd, &c.size, &c.dev, &c.ino)
	switch {
	case err != nil || n != 7 || !terminated || rest != "" || word != cardMagic || c.String() != text:
		return card{}, fmt.Errorf("%w: it is no card, the line that says where a segment's memory is", errForeignSegment)
	case c.pid <= 0 || c.fd < 0 || c.size <= 0:
		return card{}, fmt.Errorf("%w: its numbers are out of range", errForeignSegment)
	}
	return c, nil
}

// readCard reads the card in an open file of this user.
func readCard(f *os.File) (card, error) {
	if err := checkOwner(f); err != nil {
		return card{}, err
	}
	text := make([]byte, maxCard+1)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return card{}, err
	}
	return parseCard(string(text[:n]))
}

// newMemory makes memory without a name, which can be sealed.
func newMemory(name string) (*os.File, error) {
	const noExec = 0x8 // MFD_NOEXEC_SEAL, since Linux 6.3: the memory cannot be executed
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(memfdName+name, flags|noExec)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(memfdName+name, flags)
	}
	if err != nil {
		return nil, spaceError(fmt.Errorf("make memory: %w", err))
	}
	f := os.NewFile(uintptr(fd), memfdName+name)
	if err := f.Chmod(0o600); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sealMemory fixes the memory's size for good.
func sealMemory(f *os.File) error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, memorySeals); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	return nil
}

// cardOf makes the card of memory of this process.
func cardOf(f *os.File, size int) (*card, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	return &card{
		pid:  os.Getpid(),
		fd:   int(f.Fd()),
		size: size,
		dev:  st.Dev,
		ino:  st.Ino,
	}, nil
}

// open opens the memory that a card names, and checks that it is the card's: in another container, or after the
// creator's death, the same process and descriptor numbers may belong to other memory.
func (c *card) open() (*os.File, error) {
	if to, err := os.Readlink(c.path()); err != nil || !strings.HasPrefix(to, "/memfd:"+memfdName) {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%w: this process may not look into process %d: another user, more rights, "+
				"or another namespace of users (%w)", errForeignSegment, c.pid, err)
		}
		return nil, c.notHereError()
	}
	f, err := os.OpenFile(c.path(), os.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForeignSegment, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	has, sealErr := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	switch {
	case err != nil:
	case sealErr != nil || has&memorySeals != memorySeals || int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("%w: its memory is not sealed, or another user's", errForeignSegment)
	case st.Dev != c.dev || st.Ino != c.ino || st.Size != int64(c.size):
		err = c.notHereError()
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// notHereError is the error for a card whose memory cannot be found.
func (c *card) notHereError() error {
	return fmt.Errorf("%w here: the process %d that made it has ended, or is of another container", ErrNotFound, c.pid)
}

// reservedMemory is the memory of all segments with cards in dir, bytes. The size of that file system is what this
// machine grants to shared memory, so the memory counts as if it lay there.
func reservedMemory(dir string) (sum uint64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if c, err := readCard(f); err == nil {
			sum += uint64(c.size)
		}
		_ = f.Close()
	}
	return sum
}
