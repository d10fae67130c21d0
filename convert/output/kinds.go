package output

import (
	"fmt"
	"strings"

	"ringlet/convert/input"
)

// A File is a file of rows that is being written. Its errors name the file.
type File interface {
	Write(*input.Row) error
	// Buffered is how many bytes of rows are in memory; Flush writes them.
	Buffered() int
	Flush() error
	// Close completes the file and syncs it. Abandon frees the resources of a file that will not be completed.
	Close() error
	Abandon()
}

// A Kind is a format of files.
type Kind struct {
	Name string // also the extension, without its dot
	Help string
	// Open creates a file. table is the name of the table, if the format has names; about is a text that describes the
	// data, which the file gets if the format has a place for it.
	Open func(path, table, about string) (File, error)
}

// Kinds are all kinds.
var Kinds = []Kind{
	{"parquet", "columns, for pandas, Polars, DuckDB and Spark", openParquet},
	{"root", "a TTree, for ROOT and uproot", openROOT},
	{"jsonl", "JSON lines; data in base64", openLines},
	{"h5", "HDF5, for h5py, Julia and MATLAB", openHDF5},
	{"npz", "NumPy arrays", openNPZ},
}

// KindOf finds the kind of a name.
func KindOf(name string) (*Kind, error) {
	var names []string
	for i := range Kinds {
		if Kinds[i].Name == name {
			return &Kinds[i], nil
		}
		names = append(names, Kinds[i].Name)
	}
	return nil, fmt.Errorf("format %q is not one of %s", name, strings.Join(names, ", "))
}

// Endings lists the endings of file names for a sentence: ".parquet, .root or .jsonl".
func Endings() string {
	var s strings.Builder
	for i := range Kinds {
		switch {
		case i > 0 && i == len(Kinds)-1:
			s.WriteString(" or ")
		case i > 0:
			s.WriteString(", ")
		}
		s.WriteString("." + Kinds[i].Name)
	}
	return s.String()
}
