// Package content is the row by which the vertex detector enters the table of sources, as a simulation of a user's own
// would: Kind for the detector that needs no file, KindOf for another one.
package content
