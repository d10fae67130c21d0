package filter

import (
	"ringlet/internal/registry"
)

// Kind is a row of the table of filters (package builtin): a filter of one's own is such a row.
type Kind struct {
	registry.Kind
	// NewDescription makes what a file behind the colon describes, with the values that stand where the file says
	// nothing. Nil: the filter has no such file.
	NewDescription func() Description
	// ByProcesses says that processes of others judge, under the name behind the colon.
	ByProcesses bool
	// Open makes n filters, one for each goroutine that judges; with 0 it only checks. value is what stands behind the
	// colon. d is what its file describes; nil stands for no file.
	Open func(value string, d Description, n int) ([]Filter, error)
}

// Description is what a file says of the data that a filter judges.
type Description interface {
	// Settings is a pointer to the struct that the file is read into. Its yaml keys are those of the file.
	Settings() any
	// Complete checks what was read, and computes what the others need. An error that is a *DescriptionError names the
	// key of the file that is wrong.
	Complete() error
	// Sources is the number of sources that the data have at least. It holds after Complete.
	Sources() int
	// Fits says whether data made of the default description are data of this one. It holds after Complete.
	Fits() bool
}

// DescriptionError says which key of a description cannot be, and why.
type DescriptionError struct{ Field, Reason string }

// Error says both.
func (e *DescriptionError) Error() string { return e.Field + ": " + e.Reason }
