package nodes

import (
	"bytes"
	"os"
	"path/filepath"
)

// isStopped says that a process of this host is stopped, by its id: state T of proc_pid_stat(5), or t under a debugger.
func isStopped(process string) bool {
	if process == "" {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", process, "stat"))
	if err != nil {
		return false
	}
	after := bytes.LastIndexByte(stat, ')') // the name before it may have anything
	return after >= 0 && after+2 < len(stat) && (stat[after+2] == 'T' || stat[after+2] == 't')
}
