package detectorfile

import (
	"errors"
	"reflect"

	"ringlet/filter"
	"ringlet/velo"
	"ringlet/velo/frontend"
)

// Geometry is that of a description which is complete; nil if it is none of a vertex detector.
func Geometry(d filter.Description) *velo.Geometry {
	if d, ok := d.(*Description); ok {
		return d.detector.Geometry()
	}
	return nil
}

// Description is what a detector's file describes.
type Description struct {
	settings frontend.Config
	detector *frontend.Detector // nil before Complete
}

// New is the detector of L1-farm, from which a file need only say what differs.
func New() *Description { return &Description{settings: frontend.Default()} }

// Settings is what the file is read into.
func (d *Description) Settings() any { return &d.settings }

// Complete makes the detector.
func (d *Description) Complete() (err error) {
	d.detector, err = frontend.New(d.settings)
	var layout *velo.LayoutError
	var other *frontend.ConfigError
	switch {
	case errors.As(err, &layout):
		return &filter.DescriptionError{Field: "detector." + layout.Field, Reason: layout.Reason}
	case errors.As(err, &other):
		return &filter.DescriptionError{Field: other.Field, Reason: other.Reason}
	}
	return err
}

// Sources is the number of its boards.
func (d *Description) Sources() int { return d.detector.Geometry().Boards() }

// Fits compares its layout with that of the default detector.
func (d *Description) Fits() bool {
	return reflect.DeepEqual(d.settings.Detector, frontend.Default().Detector)
}

// Detector is what was described. It holds after Complete.
func (d *Description) Detector() *frontend.Detector { return d.detector }
