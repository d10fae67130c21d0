// Package content adds the simulated vertex detector to the table of sources, in the same way as a user's own
// simulation would be added: Kind is the row of the default detector, KindOf of any other one.
package content
