// Package velo describes the data of a silicon-strip vertex detector: the geometry of its sensors, the 2-byte cluster,
// and the fragment that the front-end of one board sends for one event.
//
// It stands for the Vertex Locator and its off-detector electronics in L1-farm §3.1 and §3.2: stations
// along the beam, each with two sensors that measure the radius R and two that measure the azimuth φ; one board for
// each sensor; a cluster of one strip or of two. docs/format/velo.md draws the fragment.
//
//  1. New computes the tables of a Layout; Default is the document's detector. A Geometry is immutable: any number of
//     goroutines may use it. Each board is a source of the run: source s is board s.
//  2. ParseBoard views a fragment without copying and allocates nothing. It checks all rules of the format: the
//     clusters of the view ascend, and none reaches beyond strip 2047.
//  3. Geometry.Radius gives the radius of a cluster of an R sensor; Geometry.ClusterAzimuth gives the azimuth of a
//     cluster of a φ sensor for a track that passes it at a given radius.
//
// Lengths are in mm, angles in rad. The beam is the z axis. The right half of the detector is at x > 0; azimuths of the
// right half are near 0, azimuths of the left half near π, so both are continuous within their half.
//
// ParseBoard does not know the geometry: the caller compares strips with Geometry.Strips.
package velo
