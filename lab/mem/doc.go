// Package mem is the program ringlet mem: an owner, which exports a segment until it is stopped, and guests, each of
// which does one thing with it from another process or host. It stands for the test programs of users in NIC-crossbar
// §4.1: export, put, get, fill, compare, lock, watch, tables.
//
// A group is a directory with the certificates of guests and the file group.json, which says where the owner is.
// Whoever has a copy of the directory is a guest of the group: it has room for eight at a time. The owner's key is in
// no file.
//
//  1. Serve is the owner. It makes the certificates of the group, and writes group.json when it can be reached.
//  2. Enter makes this process a guest. Its methods do one thing each, and print what became of it.
//  3. Demo is an owner in a process of its own and two guests in this one, which show everything.
//
// It does not promise that a lock is given back by a guest that is killed: the word of the lock says who had it.
package mem
