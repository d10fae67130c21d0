// Package arrays writes one-dimensional arrays of numbers and texts to a file of HDF5 or NumPy (.npz), as large as the
// disk allows, in bounded memory.
//
// # How to use it
//
// Create begins a file. Add, and AddBulk for the array that has most of the bytes, name its arrays; AddTexts writes an
// array of texts at once. Append and AppendUint add elements to an array, in any order of arrays. Close completes the
// file and syncs it; before that no program takes it for one of its kind. One goroutine owns a file.
//
// The bytes of an array stand in blocks of blockBytes; memory has one block of each array at most, and 8 bytes for each
// block in the file. What is longer than a block goes to the file without a copy.
//
// # HDF5
//
// The subset that is written (HDF5 File Format Specification, version 3.0, sections in brackets): a superblock of
// version 2 (II.A); object headers of version 2 (IV.A.1.b) with compact links; each table is a group, each array a
// chunked dataset without filters, of a size that can grow (IV.A.2.i, version 3), its chunks indexed by a B-tree of
// version 1 (III.A.1). The description is the attribute "about" of the root group, a text of variable length in a
// global heap (III.E). HDF5 1.8 and newer read it.
//
// # npz
//
// A zip archive of NumPy arrays (.npy, version 1.0), not compressed, with 64-bit sizes where they are needed. Names of
// tables do not appear. The bulk array is written where it stays; the others wait in a file without a name until Close.
// The description is the array "about" of one text.
package arrays
