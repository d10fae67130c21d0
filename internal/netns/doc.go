// Package netns makes networks of several hosts on one machine, for tests and for the test bed: network namespaces
// joined by pairs of interfaces. It stands for the last rung of the test ladder (network namespaces).
//
// What the caller must do: ask Possible first, and skip aloud if it says why not; Close what New has made, once the
// processes and sockets in it are closed.
//
// A namespace has no name, only an open file, so that the kernel takes it down with its interfaces when the last
// process that uses it ends, however that ends: nothing can be left behind. It needs root and the program ip, and
// promises nothing of speed: veth pairs hand over whole GSO batches unless gso_max_segs says otherwise.
package netns
