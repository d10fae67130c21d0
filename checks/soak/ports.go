package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listening are the addresses on loopback at which the processes listen. They come from the kernel, so that no port is
// forgotten.
func (h *hostileRun) listening(network string) (out []string, err error) {
	sockets := map[string]bool{} // inodes
	for _, p := range h.c.processByName {
		files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.pid()), "fd", "*"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil { // the error: it was closed meanwhile
				sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
			}
		}
	}
	for _, table := range []string{network, network + "6"} {
		text, err := os.ReadFile(filepath.Join("/proc/net", table))
		if err != nil {
			continue // a kernel without IPv6
		}
		for _, line := range strings.Split(string(text), "\n") {
			if port, ok := boundPort(line, network, sockets); ok {
				out = append(out, fmt.Sprintf("127.0.0.1:%d", port))
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no process listens by %s", network)
	}
	return out, nil
}

// boundPort is the port in a line of the kernel's table, if the line is a listening socket among sockets.
func boundPort(line, network string, sockets map[string]bool) (port uint64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 || !sockets[fields[9]] || network == "tcp" && fields[3] != "0A" {
		return 0, false
	}
	_, hex, _ := strings.Cut(fields[1], ":")
	port, err := strconv.ParseUint(hex, 16, 16)
	return port, err == nil
}
