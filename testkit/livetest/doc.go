// Package livetest has a live source that a test plays: what its front-end would send, the test gives. Whoever tests a
// whole run adds Kind to the table of sources and takes it away afterwards.
package livetest
