package recording

import (
	"context"
	"fmt"
	"path/filepath"
)

// manifestSuffix follows the name of a merged file in the name of its manifest, as IndexSuffix does in that of its
// index.
const manifestSuffix = ".json"

// mergedID is the SegmentID in the index of a merged file. Its number is 0; segments of builder units count from 1.
func mergedID(f Format) SegmentID { return SegmentID{Format: f} }

// readMerged reads the contents of a merged file from the manifest and the index beside it.
func readMerged(ctx context.Context, path string, checkLast bool) (*Contents, error) {
	b, err := readBounded(path + manifestSuffix)
	if err != nil {
		return nil, fmt.Errorf("%s has no manifest beside it, so its expected contents are unknown: %w", path, err)
	}
	m, err := readManifest(b, path+manifestSuffix)
	if err != nil {
		return nil, err
	}
	if m.Merged == nil {
		return nil, fmt.Errorf("the manifest %s%s is of a run that was not merged", path, manifestSuffix)
	}
	c := &Contents{
		Dir:       filepath.Dir(path),
		Manifest:  m,
		MEPSet:    m.NewMEPSet(),
		checkLast: checkLast,
	}
	c.Merged = &SegmentContents{
		ID:        mergedID(m.Format),
		Name:      filepath.Base(path),
		indexPath: path + IndexSuffix,
		hasData:   true,
		listed: &Segment{
			Name:          filepath.Base(path),
			SegmentTotals: SegmentTotals{MEPs: m.Merged.MEPs, Events: m.Merged.Events, Bytes: m.Merged.Bytes},
			CRC:           m.Merged.CRC,
		},
	}
	return c, c.readSegment(ctx, c.Merged)
}
