// Package lineserver takes slow data at a socket, in lines that any program can write.
//
// It stands for the slow control beside an event builder (docs/design/038-recording.md, section Slow data): no broker
// stands between a sensor and the recording. docs/format/slowdata.md has the lines of both directions.
//
// The caller opens a Server with Listen, and gives it the function that keeps values; Close ends it with all
// connections. The server answers a line only when that function has returned, and reads no further meanwhile, so that
// a sender that waits for answers loses nothing.
//
// It does not know who sends: whoever reaches the address can send values.
package lineserver
