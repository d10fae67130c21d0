package vertex

import (
	"ringlet/filter"
	"ringlet/internal/registry"
	"ringlet/velo"
	"ringlet/velo/detectorfile"
)

// Kind is the row of the vertex filter in the table of filters; a user's own filter is added in the same way.
var Kind = filter.Kind{
	Kind: registry.Kind{Name: "vertex", Help: "accepts events of a vertex detector in which a particle decayed; " +
		"vertex:FILE one that a file describes, docs/vertex-detector.md"},
	NewDescription: func() filter.Description { return detectorfile.New() },
	Open:           openVertex,
}

// openVertex makes filters. A *GeometryError says why a detector cannot be searched.
func openVertex(_ string, d filter.Description, n int) (list []filter.Filter, err error) {
	g, err := geometryOf(d)
	if err != nil {
		return nil, err
	}
	detector, err := NewDetector(g)
	if err != nil {
		return nil, err
	}
	for range n {
		list = append(list, newFilter(detector))
	}
	return list, nil
}

// geometryOf is the geometry of a description, or the default one.
func geometryOf(d filter.Description) (*velo.Geometry, error) {
	if g := detectorfile.Geometry(d); g != nil {
		return g, nil
	}
	return velo.New(velo.Default())
}
