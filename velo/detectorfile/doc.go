// Package detectorfile is what a file says of a vertex detector, for those who simulate it and for those who search it
// (docs/vertex-detector.md).
package detectorfile
