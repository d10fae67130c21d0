package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ringlet/recording"
)

// limitToIndex limits an open segment of a recording to its indexed MEPs; note is nil for every other file.
func limitToIndex(ctx context.Context, in io.Reader,
	path string) (out io.Reader, note *recording.OpenSegment, err error) {
	o, ok, err := recording.ReadOpenSegment(ctx, path)
	if !ok || err != nil {
		return in, nil, err
	}
	return io.LimitReader(in, o.Bytes), &o, nil
}

// printOpenNote says that only the indexed part of the file was read. A JSON dump gets a line for that; the other JSON
// objects have a field.
func printOpenNote(out io.Writer, c *unitCounts, mode Mode, asJSON bool) error {
	switch {
	case c.opened == nil:
		return nil
	case asJSON && mode == ModeDump:
		return json.NewEncoder(out).Encode(map[string]any{"open_segment": c.opened})
	case asJSON:
		return nil
	}
	who := "its writer is gone ('ringlet recover' closes it)"
	if c.opened.Live {
		who = "a live process writes it"
	}
	_, err := fmt.Fprintf(out,
		"%s: an open segment, looked at to the last of the %d MEPs in its index; %d bytes behind are left out; %s\n",
		c.path, c.opened.MEPs, c.opened.TailBytes, who)
	return err
}

// extension is a file's extension, without the suffix of an open segment.
func extension(path string) string { return strings.TrimSuffix(path, recording.OpenSuffix) }
