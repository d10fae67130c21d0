// Package apitest is a fake partition, for tests of package api and of its clients: the page, `ringlet ctl`.
//
// It walks the state machine of node/fsm as a partition would, with four nodes (or Options.Nodes). Its figures depend
// on a count of ticks alone, so that two walks with the same commands show the same. Runs get numbers, records with
// verdicts, causes and accounts; the caller can make a node fail (Lose), exclude and include one.
//
// The caller makes a Fake with New, passes it to api.Config as Backend, Records and Journal, calls Tick, or Live, which
// ticks by the clock, and Close at the end. The program in the folder fake does that for people:
//
//	go run ./testkit/apitest/fake --page 127.0.0.1:7980 --keys /tmp/keys
//
// No data flow in it, and it does not promise to behave as a real partition does.
package apitest
