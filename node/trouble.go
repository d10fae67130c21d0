package node

import (
	"errors"
	"io/fs"
	"net"

	"golang.org/x/sys/unix"

	"ringlet/builderunit/sink"
	"ringlet/node/fsm"
	"ringlet/shmem"
	"ringlet/source"
)

// troubleOf is the kind of trouble behind an error; empty if none is known.
func troubleOf(err error) string {
	is := func(those ...error) bool {
		for _, one := range those {
			if errors.Is(err, one) {
				return true
			}
		}
		return false
	}
	var bad *source.BadRecordError
	var name *net.DNSError
	var address *net.AddrError
	switch {
	case errors.As(err, &bad):
		return fsm.TroubleRecord
	case is(source.ErrFileChanged):
		return fsm.TroubleChanged
	case errors.As(err, &name), errors.As(err, &address), is(unix.EADDRNOTAVAIL):
		return fsm.TroubleAddress
	case is(unix.EADDRINUSE):
		return fsm.TroubleAddressInUse
	case is(shmem.ErrExists):
		return fsm.TroubleNameInUse
	case is(sink.ErrExists, fs.ErrExist):
		return fsm.TroubleExists
	case is(unix.ENOSPC, unix.EDQUOT, unix.EFBIG, shmem.ErrNoSpace):
		return fsm.TroubleFull
	case is(fs.ErrPermission, unix.EROFS):
		return fsm.TroubleDenied
	case is(fs.ErrNotExist, unix.ENOTDIR, unix.ESTALE):
		return fsm.TroubleGone
	}
	return ""
}
