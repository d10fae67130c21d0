package shmem

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Each process at a buffer holds a lock on a byte of the buffer's file: reader i on byte i, the writer on byte
// writerByte. These are open-file-description locks (fcntl F_OFD_SETLK): the kernel drops them when the process dies,
// another process can query them without taking them, and unlike a pid they mean the same in every container. They are
// independent of the segment's flock.
const writerByte = maxReaders

func byteLock(i int64) *unix.Flock_t {
	return &unix.Flock_t{
		Type:   unix.F_WRLCK,
		Whence: unix.SEEK_SET,
		Start:  i,
		Len:    1,
	}
}

// claimByte locks byte i, or reports false if another open file has the lock.
func claimByte(f *os.File, i int64) (bool, error) {
	err := ignoringEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, byteLock(i)) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// releaseByte unlocks byte i.
func releaseByte(f *os.File, i int64) error {
	l := byteLock(i)
	l.Type = unix.F_UNLCK
	return ignoringEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, l) })
}

// isByteClaimed reports whether another open file has the lock of byte i.
func isByteClaimed(f *os.File, i int64) (bool, error) {
	l := byteLock(i)
	err := ignoringEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, l) })
	return l.Type != unix.F_UNLCK, err
}

// ClaimByte locks byte i of the segment's memory, or reports false if another open file has the lock. The kernel drops
// the lock with the last copy of this segment's descriptor: at Close, or at the end of the process. The layout says
// which byte stands for which process.
func (s *Segment) ClaimByte(i int64) (bool, error) { return claimByte(s.file, i) }

// IsByteClaimed reports whether another open file, in any process, has the lock of byte i.
func (s *Segment) IsByteClaimed(i int64) (bool, error) { return isByteClaimed(s.file, i) }
