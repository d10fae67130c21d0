// Package readback reads back the files that package arrays writes, for tests, without the code that wrote them. It
// knows no more of HDF5 and NumPy than that subset, and checks what a reader of HDF5 would trip over. In the tests of
// package conversion other programs read the files, too.
package readback
