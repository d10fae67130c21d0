package filter

import (
	"ringlet/internal/registry"
)

// Kind is a row of the table of filters (package builtin). Users add their own filter as such a row.
type Kind struct {
	registry.Kind
	// NewDescription returns the Description into which the file named after the colon is read, with default values. Nil:
	// the filter has no such file.
	NewDescription func() Description
	// ByProcesses says that processes of users judge, under the name after the colon.
	ByProcesses bool
	// Open makes n filters, one for each goroutine that judges; with 0 it only checks. value is the text after the colon.
	// d is the Description read from its file; nil: there is no file.
	Open func(value string, d Description, n int) ([]Filter, error)
}

// Description is what a file says of the data that a filter judges.
type Description interface {
	// Settings returns a pointer to the struct that the file is read into. Its yaml keys are those of the file.
	Settings() any
	// Complete checks the values read, and computes what the other methods need. A *DescriptionError names the wrong key
	// of the file.
	Complete() error
	// Sources returns the least number of sources that the data must have. It is valid after Complete.
	Sources() int
	// Fits says whether data made from the default description are data of this one. It is valid after Complete.
	Fits() bool
}

// DescriptionError says which key of a description is wrong, and why.
type DescriptionError struct{ Field, Reason string }

func (e *DescriptionError) Error() string { return e.Field + ": " + e.Reason }
