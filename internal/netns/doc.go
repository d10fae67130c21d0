// Package netns makes networks of several hosts on one machine, for tests and for the test bed: network namespaces
// joined by pairs of interfaces.
//
// What the caller must do: call CheckSupported first, and skip the test with its error if namespaces are not possible;
// Close each Namespace, once the processes and sockets in it are closed.
//
// A namespace has no name, only an open file: the kernel removes it with its interfaces when the last process that uses
// it ends, even by a kill, so that nothing is left behind. It needs root and the program ip. Its speed is not that of a
// network: veth pairs hand over whole GSO batches unless gso_max_segs is set.
package netns
