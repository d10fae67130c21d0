// Package screens tests the page of the run control with a real browser. The tests
// configure, start, watch and stop a run and look it up, and draw each screen in light
// and dark, for a desktop and for a phone.
//
// It has tests only. They build and start the program, or start the fake partition of
// testkit/apitest, and control Chromium through its debugging pipe. Without Chromium
// they are skipped, with a message.
//
//	go test ./screens                                        the tests
//	go test ./screens -run 'Shots|RealPartition' -shots DIR  the pictures (make screenshots)
//
// The pictures may differ in another browser, or with other fonts: people look at
// them, no test compares them.
package screens
