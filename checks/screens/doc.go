// Package screens looks at the page of the run control with a real browser: a run is
// configured, started, watched, stopped and looked up, and each screen is drawn, in
// light and dark, on a desk and on a phone. It stands for the part of LHCb-EB §III.A, that people see.
//
// Everything is in its tests. They build the program from the folder above, start it
// or the made-up partition of testkit/apitest, and steer Chromium through its
// debugging pipe. Without Chromium they skip, and say so.
//
//	go test ./screens                                        the tests
//	go test ./screens -run 'Shots|RealPartition' -shots DIR  the pictures (make screenshots)
//
// It does not promise that the pictures are the same in another browser, or with
// other fonts: people look at them, no test compares them.
package screens
