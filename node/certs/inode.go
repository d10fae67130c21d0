package certs

import (
	"io/fs"
	"syscall"
)

// inode is the number of a file, which another one under its name does not have.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
