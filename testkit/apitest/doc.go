// Package apitest is a partition that is none, for tests of package api and of what talks to it: the page, `ringlet
// ctl`.
//
// It walks the state machine of node/fsm as a partition would, with four nodes (or as many as asked), and makes figures
// up that follow from a count of ticks alone, so that two walks with the same commands show the same. Runs get numbers,
// records with verdicts, causes and accounts; a fault can be struck (Lose), a node excluded and included.
//
// The caller does: New, then hands the Fake to api.Config as Backend, Records and Journal, then either Tick by itself
// or Live, which ticks by the clock; Close at the end. The program in the folder fake does that for people:
//
//	go run ./testkit/apitest/fake --page 127.0.0.1:7980 --keys /tmp/keys
//
// It stands for nothing in the founding documents and promises nothing of how a real partition moves: no data flow in
// it.
package apitest
