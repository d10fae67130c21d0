// Command goplane is a front-end in Go: one plane of the telescope of examples/testbeam, over a stream.
//
//	goplane ADDRESS PLANE EVENTS RATE
//
// ADDRESS is tcp:HOST:PORT or unix:PATH. RATE is in triggers a second; 0 is as fast as it goes. PAUSE in the environment
// is for how many seconds it stands still in the middle, and once more before it closes.
package main
