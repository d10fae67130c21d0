package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ringlet/clients/frontend"
	"ringlet/event"
	"ringlet/testkit/patiently"
)

// runFrontend is a front-end of scripts, which the input exec: runs:
//
//	frontend EVENTS RATE SIZE [LEFT-OUT [ADDRESS FILE]]
//
// It sends events from 0 on, at most so many a second (0: as fast as it goes), but for one event. With an address it
// goes on through runs, until all are safe; the second half of its events it sends when the file is there.
func runFrontend() {
	if err := feed(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func feed(args []string) error {
	numbers, address, file := [4]uint64{3: 1 << 62}, "exec:", "."
	if more := args[min(len(args), len(numbers)):]; len(more) == 2 {
		args, address, file = args[:len(numbers)], more[0], more[1]
	}
	for i, a := range args {
		var err error
		if numbers[i], err = strconv.ParseUint(a, 10, 64); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*patiently.LongTimeout)
	defer stop()
	s, err := frontend.Dial(ctx, address, frontend.StreamSettings{Name: "script"})
	if err != nil {
		return err
	}
	for e := s.Next(); e < numbers[0]; e++ {
		for e == numbers[0]/2 && ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if numbers[1] > 0 {
			time.Sleep(time.Second / time.Duration(numbers[1]))
		}
		if e == numbers[3] {
			continue
		}
		if err := s.Send(ctx, e, make([]byte, numbers[2])); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

// cmdOnce holds that MEP files have the fragments of each source and event once.
func cmdOnce(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: once SOURCES EVENTS FILE...")
	}
	sources, err := strconv.Atoi(args[0])
	ts.Check(err)
	events, err := strconv.Atoi(args[1])
	ts.Check(err)
	times := make([][]int, sources)
	for i := range times {
		times[i] = make([]int, events)
	}
	for _, name := range args[2:] {
		data := []byte(ts.ReadFile(name))
		for len(data) > 0 {
			mep, err := event.ParseMEP(data)
			ts.Check(err)
			for i := range mep.NumMFPs() {
				mfp, err := mep.MFP(i)
				ts.Check(err)
				for j := range mfp.NumFragments() {
					if mfp.FragmentType(j) != event.FragmentMissing {
						times[mfp.Source()][mfp.FirstEvent()+uint64(j)]++
					}
				}
			}
			data = data[len(mep.Bytes()):]
		}
	}
	for i, of := range times {
		for e, n := range of {
			if n != 1 {
				ts.Fatalf("the fragment of source %d and event %d is there %d times", i, e, n)
			}
		}
	}
}
