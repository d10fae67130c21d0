// Package detectorfile reads the file that describes a vertex detector. The simulation and the vertex filter use the
// same description (docs/vertex-detector.md).
package detectorfile
