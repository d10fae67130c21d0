// Package golden reads bytes that a person has written by hand, for tests that compare a format with them. Only tests
// may import it.
package golden
