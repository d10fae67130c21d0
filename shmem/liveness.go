package shmem

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The processes at a buffer hold a lock each on a byte of its file: reader i on byte i, the writer on
// byte writerByte. These are open-file-description locks (fcntl F_OFD_SETLK): the kernel
// drops them when the process dies, they can be asked after without being taken, and unlike a pid they
// mean the same in every container. They do not meet the flock of the segment.
const writerByte = maxReaders

func byteLock(i int64) *unix.Flock_t {
	return &unix.Flock_t{
		Type:   unix.F_WRLCK,
		Whence: unix.SEEK_SET,
		Start:  i,
		Len:    1,
	}
}

// claimByte takes the lock of byte i, or reports that another has it.
func claimByte(f *os.File, i int64) (bool, error) {
	err := ignoringEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, byteLock(i)) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// releaseByte gives the lock of byte i back.
func releaseByte(f *os.File, i int64) error {
	l := byteLock(i)
	l.Type = unix.F_UNLCK
	return ignoringEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, l) })
}

// isByteClaimed says whether another open of the file has the lock of byte i.
func isByteClaimed(f *os.File, i int64) (bool, error) {
	l := byteLock(i)
	err := ignoringEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, l) })
	return l.Type != unix.F_UNLCK, err
}

// ClaimByte takes the lock of byte i of the segment's memory, or says that another has it. The kernel gives it back
// when the last copy of this segment's descriptor goes: at Close, or with the process. Which byte stands for whom is
// the layout's.
func (s *Segment) ClaimByte(i int64) (bool, error) { return claimByte(s.file, i) }

// IsByteClaimed says whether another has the lock of byte i, in whatever process.
func (s *Segment) IsByteClaimed(i int64) (bool, error) { return isByteClaimed(s.file, i) }
