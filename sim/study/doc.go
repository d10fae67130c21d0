// Package study asks a model a question: a file names the model and its parameters, each with its line in a document,
// and the document's measurements; the outcome of the model is judged by these.
//
// It is for the tables and figures of the founding documents (docs/sources.md), one file each in sim/documents/figures,
// and for a user's own files, which expect nothing.
//
// What the caller must do: Load or Parse a file, Run it with the table of models, and Judge the outcome.
//
// A model asks [Params] for each of its parameters by name and kind, checks [Params.Err], and only then begins. A
// parameter that is missing, of another kind, or never read is a problem that names the file, the line and the key.
//
// It does not promise that a model is right: docs/simulator.md says what each leaves out.
package study
