package origin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/recording"
	"ringlet/testkit/must"
)

// lackingMEP is events 0 to 9 of the generator, of which the fragments of some sources are missing.
func lackingMEP(t *testing.T, g *generatedContent, f recording.Format, lacks []uint16) (b []byte) {
	t.Helper()
	const events = 10
	if f == recording.FormatMFP {
		for source := range uint16(g.sources) {
			mfp := make([]byte, max(g.p.MaxMFP(source, events), event.MFPHeaderSize(events)))
			size, _, err := g.p.FillMFP(mfp, source, 0, events, false)
			must.OK(t, err)
			if slices.Contains(lacks, source) {
				size = len(event.PutMissingMFP(mfp, source, 0, events))
			}
			b = append(b, mfp[:size]...)
		}
		return b
	}
	for id := range uint64(events) {
		fragments := make([]event.SourceFragment, g.sources)
		for source := range uint16(g.sources) {
			fragments[source] = event.SourceFragment{
				Type:    g.p.FragmentType(source),
				Version: pattern.Version,
				Source:  source,
				Data:    make([]byte, g.p.Size(source, id)),
			}
			g.p.Fill(fragments[source].Data, source, id)
			if slices.Contains(lacks, source) {
				fragments[source] = event.SourceFragment{Type: event.FragmentMissing, Source: source}
			}
		}
		var err error
		b, err = event.AppendRecordFromFragments(b, event.MDFHeader{Run: g.run, Bunch: uint32(id)}, fragments)
		must.OK(t, err)
	}
	return b
}

// TestMissingFragmentsAreNoWrongContent holds that what a lost readout unit has not given is told as missing, of which
// source, and that all other fragments are compared.
func TestMissingFragmentsAreNoWrongContent(t *testing.T) {
	c, err := Find(t.Context(), &recording.Manifest{Run: 9, Configuration: "nodes: 2\npacking: 10\nstreams: 3\n"})
	must.OK(t, err)
	g, _ := c.(*generatedContent)
	for _, f := range []recording.Format{recording.FormatMFP, recording.FormatMDF} {
		for _, lacks := range [][]uint16{nil, {1}, {3, 4, 5}, {0, 5}} {
			t.Run(fmt.Sprint(f, lacks), func(t *testing.T) {
				data := lackingMEP(t, g, f, lacks)
				err := g.Check(f, &recording.Entry{Events: 10}, data)
				var missing *recording.MissingError
				switch {
				case lacks == nil && err != nil:
					t.Error(err)
				case lacks != nil && (!errors.As(err, &missing) || !slices.Equal(missing.Sources, lacks) ||
					missing.Fragments != 10*uint64(len(lacks))):
					t.Errorf("%v", err)
				}
				data[len(data)-70] ^= 1 // of another source
				if err = g.Check(f, &recording.Entry{Events: 10}, data); slices.Contains(lacks, 5) {
					return
				}
				if err == nil || errors.As(err, &missing) || !strings.Contains(err.Error(), "event 9") {
					t.Errorf("a byte is changed, and %v is said", err)
				}
			})
		}
	}
}
