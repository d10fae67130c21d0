package source

import (
	"fmt"

	"ringlet/event"
	"ringlet/internal/decimal"
)

// parseMax reads the option max: how large the fragments of a source may be, in bytes.
func parseMax(text string) (int, error) {
	n, err := decimal.Size(text)
	if err == nil && (n < 1 || n > event.MaxFragment) {
		err = fmt.Errorf("max=%s is not between 1 byte and 1 GiB, the largest fragment", text)
	}
	return int(n), err
}

// paddedMax is how many bytes the largest fragment of the input takes in an MFP.
func (in *Input) paddedMax() int { return paddedBytes(in.MaxFragment) }

// isWide says whether an MFP of the input may be wide.
func (in *Input) isWide() bool { return in.MaxFragment > event.MaxNarrowFragment }

// headerBytes is how many bytes the header of an MFP of n events takes at most.
func (in *Input) headerBytes(n int) int {
	if in.Kind.HasWords {
		return event.WordedMFPHeaderSize(n)
	}
	if in.isWide() {
		return event.WideMFPHeaderSize(n)
	}
	return event.MFPHeaderSize(n)
}
