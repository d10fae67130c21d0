// Package repeats keeps a log from being flooded by something that happens again and again: the first time is told,
// and then once a minute how often it has happened since. Counters are the caller's matter; they have each time.
package repeats
