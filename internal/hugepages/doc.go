// Package hugepages asks the kernel for huge pages under large memory that is written from its beginning to its end.
//
// The kernel clears and maps memory when it is first touched, 4 KiB at a time: of 1 GiB that is a quarter of a million
// faults, each of several microseconds on a virtual machine. With pages of 2 MiB there are 512.
//
// What it does not promise: that there are huge pages. Where the kernel has none, or its administrator forbids them
// (/sys/kernel/mm/transparent_hugepage/enabled is never), nothing changes.
package hugepages
