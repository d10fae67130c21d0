// Package selection picks the built events that a viewer is shown, and writes an event for people and programs. It is
// pure: MEPs and times go in, events and bytes come out.
//
// It stands for the sample of built events that a data acquisition system shows during a run (docs/tap.md).
//
// # What the caller must do, in order
//
//  1. Parse a Spec, from flags or the API, into a Selection. A wrong Spec gives a *FieldError.
//  2. Make a Picker of the Selection, for one stream of MEPs.
//  3. For each MEP: Packet.Parse, then Picker.Pick with the time, which names the events to show.
//  4. Packet.Event copies an event out of the MEP; Selection.TrimEvent removes the fragments that the Spec excludes.
//  5. Renderer.AppendEvent writes the event: a line of JSON, hexadecimal digits, or an MDF record.
//
// Packet.Events walks all events of a MEP in order, without a Picker.
//
// # What it does not promise
//
// A sample is no random draw: of a MEP with more events than the rate allows, a Picker takes consecutive events, from a
// place that depends on the MEP's number. If hardly any event passes a filter, the Picker stops examining for the rest
// of the second after maxExaminedPerSecond fragments, and counts the events that it has skipped.
package selection
