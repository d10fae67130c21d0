// Package golden reads bytes that were written by hand, for tests that hold a format against them. Only tests may
// import it.
package golden
