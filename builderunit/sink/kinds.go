package sink

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"ringlet/internal/registry"
	"ringlet/recording"
	"ringlet/shmem"
)

// Settings are the parameters of a sink; each kind reads the fields that concern it.
type Settings struct {
	Segments  SegmentsConfig     // Open sets its directory and the fields of the run
	Run       recording.Manifest // the manifest at the begin; Open sets the format
	Output    string             // directory of all runs, name of the shared-memory buffer, or output as configured
	Overwrite bool
	// MaxBacklogBytes, if not 0, says that a second filter drains the recording, and how many bytes a builder unit may
	// have in it.
	MaxBacklogBytes int64
	Log             *slog.Logger // of a backlog
	BufferBytes     int          // size of the buffer
	SharesEntries   bool         // each entry of the buffer goes to one reader, not to all
	// LendSlots, if not nil, are the slots of the builder unit: the buffer lends MEPs in their slots, at most MaxLent at
	// a time.
	LendSlots *shmem.Slots
	MaxLent   int
}

// Kind is a kind of sink.
type Kind struct {
	registry.Kind
	Files  bool                      // it writes segments to a directory
	Shared bool                      // it keeps MEPs in shared memory
	Remote bool                      // the setting output keeps the kind's name and colon
	Drops  bool                      // no process gets the MEPs
	Check  func(output string) error // says what is wrong with an output; nil: the output is a path, or there is none
	Open   func(s Settings) (Sink, error)
}

// Kinds is the table of sinks.
var Kinds = []Kind{
	{
		Kind:  registry.Kind{Name: "discard", Help: "nothing is kept"},
		Drops: true,
		Open:  func(Settings) (Sink, error) { return &Discard{}, nil },
	},
	{
		Kind:  registry.Kind{Name: "mep", Help: "files of MEPs as they were built"},
		Files: true,
		Open:  openSegmentsAs(recording.FormatMEP),
	},
	{Kind: registry.Kind{Name: "mdf", Help: "files of MDF records"}, Files: true,
		Open: openSegmentsAs(recording.FormatMDF)},
	{
		Kind:   registry.Kind{Name: "buffer", Help: "shared memory for other programs"},
		Shared: true,
		Check:  checkBufferName,
		Open:   openBuffer,
	},
	{
		Kind:   registry.Kind{Name: "udp", Help: "events as EJFAT's segments to an address; what is lost on the way is lost"},
		Remote: true,
		Check:  checkDestination,
		Open:   openDatagrams,
	},
}

// maxNameBytes is the longest name of a buffer, in bytes: names in shared memory have at most 200, with a prefix and a
// suffix.
const maxNameBytes = 128

// bufferNameError says what is wrong with the name of a buffer.
type bufferNameError struct{ Output, Reason string }

func (e *bufferNameError) Error() string {
	return fmt.Sprintf("%q %s: write a name, and after it ?share if its readers share the MEPs", e.Output, e.Reason)
}

// ParseBufferName parses the output of a buffer: NAME, or NAME?share if each MEP goes to one reader.
func ParseBufferName(output string) (name string, share bool, err error) {
	name, query, hasQuery := strings.Cut(output, "?")
	switch {
	case strings.Contains(name, "/"):
		return "", false, &bufferNameError{output, "has a slash"}
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", false, &bufferNameError{output, "has a blank, or a letter that is not of ASCII"}
	case len(name) > maxNameBytes:
		return "", false, &bufferNameError{output, "is too long"}
	case hasQuery && query != "share":
		return "", false, &bufferNameError{output, "asks for something unknown"}
	}
	return name, hasQuery, nil
}

func checkBufferName(output string) error {
	_, _, err := ParseBufferName(output)
	return err
}

// openSegmentsAs returns the Open of a kind that records segments of that format.
func openSegmentsAs(format recording.Format) func(Settings) (Sink, error) {
	return func(s Settings) (Sink, error) {
		s.Run.Format, s.Run.BacklogBytes = format, s.MaxBacklogBytes
		s.Segments.Run, s.Segments.Key, s.Segments.Format = s.Run.Run, s.Run.Key, format
		var err error
		if s.Segments.Dir, err = recording.OpenRun(s.Output, s.Run, s.Overwrite); err != nil {
			return nil, err
		}
		out, err := NewSegments(s.Segments)
		if err != nil {
			return nil, err
		}
		if s.MaxBacklogBytes > 0 {
			return openBacklog(out, s.MaxBacklogBytes, s.Log)
		}
		return out, nil
	}
}

func openBacklog(to *Segments, bound int64, log *slog.Logger) (Sink, error) {
	b, err := NewBacklog(to, bound, log)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func openBuffer(s Settings) (Sink, error) {
	var opts []shmem.Option
	if s.LendSlots != nil {
		opts = append(opts, shmem.WithAnnex(s.LendSlots.Segment()))
	}
	mode := shmem.Broadcast
	if s.SharesEntries {
		mode = shmem.Sharing
	}
	w, err := shmem.CreateWriter(s.Output, s.BufferBytes, mode, opts...)
	if errors.Is(err, shmem.ErrExists) {
		return nil, &SinkError{Path: s.Output, Op: "make the buffer", Cause: fmt.Errorf("another process of this host has "+
			"it: end that process, perhaps another run, or give the output another name: %w", err)}
	}
	if err != nil {
		return nil, err
	}
	return &Buffer{
		w:         w,
		lendSlots: s.LendSlots,
		maxLent:   s.MaxLent,
		result:    Result{Path: w.Name()},
	}, nil
}
