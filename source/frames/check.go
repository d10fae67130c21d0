package frames

import (
	"errors"
	"fmt"
	"strings"

	"ringlet/internal/address"
	"ringlet/internal/secret"
)

// maxSocketPath is the longest path of a socket in bytes: the kernel has 108, of which one is the final zero.
const maxSocketPath = 107

// CheckTCP says why the feed cannot listen at host:port, whatever the host.
func CheckTCP(text string) error {
	at, _, err := secret.SplitAddress(text)
	if err != nil {
		return err
	}
	if err := address.CheckListen(at); err != nil {
		return fmt.Errorf("%w; a source is tcp:HOST:PORT, as tcp:127.0.0.1:9000, or tcp::9000 for every network of its host",
			err)
	}
	return nil
}

// CheckUnix says why a path cannot be that of a socket, whatever the host.
func CheckUnix(path string) error {
	switch {
	case path == "":
		return errors.New("there is no path: a source is unix:PATH")
	case strings.TrimSpace(path) != path:
		return fmt.Errorf("%q has a blank at an end: leave it out", path)
	case len(path) > maxSocketPath:
		return fmt.Errorf("%q has %d bytes, and the path of a socket %d at most: choose a shorter one", path, len(path),
			maxSocketPath)
	case strings.HasSuffix(path, "/"):
		return fmt.Errorf("%q is a directory: a source is unix:PATH, the path of a socket", path)
	}
	return nil
}

// CheckExec says why a command cannot be run, whatever the host.
func CheckExec(command string) error {
	if strings.TrimSpace(command) == "" {
		return errors.New("there is no command: a source is exec:COMMAND")
	}
	return nil
}
