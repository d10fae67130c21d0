// Package velo holds what data of a silicon-strip vertex detector mean: the geometry of its sensors, the 2-byte
// cluster, and the fragment of a board, which is what the board's front-end sends for one event.
//
// It stands for the Vertex Locator and its off-detector electronics in L1-farm §3.1 and §3.2: stations
// along the beam, each with two sensors that measure the radius R and two that measure the azimuth φ; one board for
// each sensor; a cluster of one strip or of two. docs/format/velo.md draws the fragment.
//
//  1. New computes the tables of a Layout; Default is the document's detector. A Geometry is immutable: any number of
//     goroutines may ask it. A source of the run is a board: the board of source s is s.
//  2. ParseBoard views a fragment without copying and allocates nothing. It checks everything that the format says;
//     the clusters of the view are in ascending order, and none reaches beyond the strips that a word can name.
//  3. Geometry.Radius says at which radius a cluster of an R sensor is, Geometry.ClusterAzimuth at which azimuth a
//     cluster of a φ sensor is, where a track passes it at a given radius.
//
// Lengths are in mm, angles in rad. The beam is the z axis. The right half of the detector is at x > 0; azimuths of the
// right half are near 0, azimuths of the left half near π, so both are continuous within their half.
//
// ParseBoard does not know the geometry. Whether a strip exists on the board is asked of Geometry.Strips.
package velo
