package detectorfile

import (
	"errors"
	"reflect"

	"ringlet/filter"
	"ringlet/velo"
	"ringlet/velo/frontend"
)

// Geometry is the geometry of a description after Complete; nil if it does not describe a vertex detector.
func Geometry(d filter.Description) *velo.Geometry {
	if d, ok := d.(*Description); ok {
		return d.detector.Geometry()
	}
	return nil
}

// Description is the detector that a file describes.
type Description struct {
	settings frontend.Config
	detector *frontend.Detector // nil before Complete
}

// New is the detector of L1-farm; a file contains only what differs from it.
func New() *Description { return &Description{settings: frontend.Default()} }

// Settings is the struct that the file is decoded into.
func (d *Description) Settings() any { return &d.settings }

// Complete makes the detector from the settings. The error is a *filter.DescriptionError if a setting is wrong.
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

// Sources is the number of the detector's boards.
func (d *Description) Sources() int { return d.detector.Geometry().Boards() }

// Fits says whether the layout is that of the default detector.
func (d *Description) Fits() bool {
	return reflect.DeepEqual(d.settings.Detector, frontend.Default().Detector)
}

// Detector is the described detector; nil before Complete.
func (d *Description) Detector() *frontend.Detector { return d.detector }
