// Package study puts a question to a model: a file names the model and its parameters, each with the line of the
// document that it comes from, and what the document measured; the outcome of the model is judged against that.
//
// It stands for the tables and figures of the founding documents (docs/sources.md), one file each in
// sim/documents/figures, and for a user's own files, which expect nothing.
//
// What the caller must do: Load or Parse a file, Run it with the table of models, look at the Verdicts.
//
// A model asks [Params] for each of its parameters by name and kind, looks at [Params.Err], and only then begins. A
// parameter that is missing, of another kind, or read by no one is a problem that names the file, the line and the key.
//
// It does not promise that a model is right: docs/simulator.md says what each leaves out.
package study
