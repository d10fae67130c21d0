// Package figure compares what a model gives with what a document says. It stands for the figures of the founding
// documents, which have numbers F01 to F86: a value within 10 %, a bound, or a small difference within 2 points.
//
// A package of models has a table of [Figure]: the number, the place in the document, and a function that runs the model
// and returns its [Point]s. Whoever shows figures runs them and asks each point whether it [Point.Holds].
//
// What it does not promise: that a point that holds is true. The document may be wrong, and says so in Note.
package figure
