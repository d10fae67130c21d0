package main

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"ringlet/recording"
	"ringlet/testkit/origintest"
)

func cmdRecord(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: record DIR FORMAT SETTING...")
	}
	run, err := strconv.ParseUint(ts.Getenv("RUN"), 10, 32)
	ts.Check(err)
	format, err := recording.ParseFormat(args[1])
	ts.Check(err)
	text := strings.ReplaceAll(strings.Join(args[2:], "\n"), "=", ": ")
	dir, _, err := origintest.Record(context.Background(), ts.MkAbs(args[0]), text, uint32(run), format)
	ts.Check(err)
	ts.Setenv("DIR", dir)
}

func cmdFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE OFFSET")
	}
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}
