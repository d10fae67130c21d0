// Package mem is the program ringlet mem: an owner, which exports a segment until it is stopped, and guests, which each
// execute one operation on it from another process or host. It stands for the test programs of users in NIC-crossbar
// §4.1: export, put, get, fill, compare, lock, watch, tables.
//
// A group is a directory with the certificates of guests and the file group.json, which has the owner's address. A
// process with a copy of the directory can be a guest of the group, which has room for eight at a time. The owner's key
// is in no file.
//
//  1. Serve is the owner. It makes the certificates of the group, and writes group.json when guests can connect.
//  2. Enter makes this process a guest. Each method executes one operation, and prints its result.
//  3. Demo starts an owner in a process of its own and two guests in this one, and shows all operations.
//
// If a guest is killed while it holds a lock, the lock is not released: its word names the guest.
package mem
