package shmring

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"ringlet/event"
	"ringlet/shmem"
	"ringlet/shmem/ring"
)

// defaultSize is the size of a ring whose address gives none: 13 ms at 10 Gbit/s, and a hundred of them fit into 2
// GiB.
const defaultSize = 16 << 20

// maxSize is the largest size that an address may give: more bytes than any front-end fills during a pause of its
// readout unit.
const maxSize = 1 << 30

// recordsInRing is how many of the largest records a ring has room for at least.
const recordsInRing = 3

// address is the text after `shm:`: NAME or /DIR/NAME, and optionally ?size=64MiB.
type address struct {
	dir, name string
	size      int // of the records, bytes; 0: the default
}

const addressSyntax = "write shm:NAME, shm:/DIR/NAME or shm:NAME?size=64MiB"

// addressError is an address that does not name a ring.
type addressError struct {
	Source string // the input, word for word
	Reason string
}

func (e *addressError) Error() string {
	return fmt.Sprintf("%s in input %s: %s", e.Reason, e.Source, addressSyntax)
}

// ringSize is the size of the ring, in bytes of records, if a fragment has at most the given bytes.
func (a *address) ringSize(source string, maxFragment int) (int, error) {
	least := recordsInRing * int(ring.Stride(maxFragment))
	least += -least & (shmem.PageSize - 1)
	switch {
	case maxFragment < event.MaxNarrowFragment:
		return 0, &addressError{source, fmt.Sprintf("max=%d is less than the %d bytes that any front-end may put into "+
			"a ring", maxFragment, event.MaxNarrowFragment)}
	case a.size == 0:
		return max(defaultSize, least), nil
	case a.size < least:
		return 0, &addressError{source, fmt.Sprintf("the size of %d bytes has no room for %d fragments of %d bytes, "+
			"which max= allows: leave size out, or make it %d bytes at least", a.size, recordsInRing, maxFragment, least)}
	}
	return a.size, nil
}

// Size is the size of the ring that an address names, in bytes of records, if a fragment has at most the given bytes.
// The error says why there is none.
func Size(text string, maxFragment int) (int, error) {
	a, err := parseAddress("", text)
	size := 0
	if err == nil {
		size, err = a.ringSize("", maxFragment)
	}
	var wrong *addressError
	if errors.As(err, &wrong) {
		err = errors.New(wrong.Reason + ": " + addressSyntax) // the caller names the input
	}
	return size, err
}

// Check says why an address does not name a ring, whatever the host.
func Check(text string) error {
	_, err := Size(text, event.MaxNarrowFragment)
	return err
}

// SegmentPath returns the path of the shared memory that an address names; empty if the address is wrong.
func SegmentPath(text string) string {
	a, err := parseAddress("", text)
	if err != nil {
		return ""
	}
	return filepath.Join(a.dir, a.name)
}

func parseAddress(source, text string) (address, error) {
	name, settings, hasSettings := strings.Cut(text, "?")
	dir, name := filepath.Split(name)
	if dir == "" {
		dir = shmem.DefaultDir
	}
	a := address{
		dir:  dir,
		name: name,
	}
	switch {
	case name == "":
		return a, &addressError{source, "there is no name of a ring"}
	case strings.ContainsFunc(text, unicode.IsSpace):
		return a, &addressError{source, "there is a blank"}
	case name[0] == '.':
		return a, &addressError{source, "the name of a ring begins with a dot"}
	}
	if !hasSettings {
		return a, nil
	}
	size, isSize := strings.CutPrefix(settings, "size=")
	if !isSize {
		return a, &addressError{source, fmt.Sprintf("%q is no setting of a ring", settings)}
	}
	var err error
	if a.size, err = parseSize(size); err != nil {
		return a, &addressError{source, err.Error()}
	}
	return a, nil
}

// parseSize reads a number of KiB, MiB or GiB.
func parseSize(text string) (int, error) {
	unit := 0
	for suffix, u := range map[string]int{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = digits, u
		}
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || unit == 0 {
		return 0, fmt.Errorf("the size is no whole number with KiB, MiB or GiB behind it")
	}
	size := int(n) * unit
	if size < ring.MinCapacity || size > maxSize || size%shmem.PageSize != 0 {
		return 0, fmt.Errorf("the size of %d bytes is not in whole pages of %d from 256KiB to 1GiB", size, shmem.PageSize)
	}
	return size, nil
}
