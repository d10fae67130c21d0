// Package selection says which of the built events a viewer is shown, and how one event is written for people and
// programs. It is pure: MEPs and times go in, events and bytes come out.
//
// It stands for the sample of built events that a data acquisition shows while a run goes on (docs/tap.md).
//
// # What the caller must do, in order
//
//  1. Parse a Spec, as flags or the API give it, to a Selection. What is wrong with it is a *FieldError.
//  2. Make a Picker of it, for one stream of MEPs.
//  3. For each MEP: Packet.Parse, then Picker.Pick with the time, which names the events that are to be shown.
//  4. Packet.Event copies one out of the MEP, and Selection.TrimEvent leaves the fragments that were asked for.
//  5. Renderer.AppendEvent writes it: a line of JSON, hexadecimal digits, or an MDF record.
//
// Whoever wants all events of a MEP in order walks them with Packet.Events, without a Picker.
//
// # What it does not promise
//
// A sample is no fair draw: of a MEP with more events than may be shown it takes events in a row, which begin at a
// place that follows from the number of the MEP. A filter that hardly anything passes is given up on for the rest of a
// second when it has looked at many fragments; the events that were passed over are counted.
package selection
