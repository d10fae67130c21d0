package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"ringlet/clients/frontend"
)

// runFrontend is a front-end of scripts, which the input exec: runs: frontend EVENTS RATE SIZE [LEFT-OUT]. It sends
// events from 0 on, at most so many a second (0: as fast as it goes), but for one event.
func runFrontend() {
	if err := feed(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func feed(args []string) error {
	numbers := [4]uint64{3: 1 << 62}
	for i, a := range args {
		var err error
		if numbers[i], err = strconv.ParseUint(a, 10, 64); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	s, err := frontend.Dial(ctx, "exec:", frontend.StreamSettings{Name: "script"})
	if err != nil {
		return err
	}
	for e := s.Next(); e < numbers[0]; e++ {
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
