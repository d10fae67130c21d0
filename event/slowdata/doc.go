// Package slowdata has slow data: values with a name and a time, such as temperatures, voltages, positions of a scan
// and comments. It is pure: lines and values go in, values and lines come out. It has no clock and does no I/O.
//
// It stands for what a detector needs beside its events (docs/design/038-recording.md, section Slow data). Two forms of
// a value are known: the line that a sender writes (Parse) and the line of a recording (AppendJSON, ParseJSON);
// docs/format/slowdata.md describes both.
//
// The caller
//
//  1. makes a Value with Parse or New, which check all bounds, and sets Received;
//  2. gives it to Table.Note, which keeps the last value of each name;
//  3. writes it with AppendJSON.
//
// It does not promise that times agree: Time is by the sender's clock, Received by the receiver's. A sender whose
// connection broke sends values again: equal values of a name and time are one value.
package slowdata
