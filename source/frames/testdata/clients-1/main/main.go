// A front-end of a test, with the client of version 1 of the format: address and events. Event e has its number e % 40
// times.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"ringlet/source/frames/testdata/clients-1/frontend"
)

func main() {
	n, _ := strconv.ParseUint(os.Args[2], 10, 64)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := frontend.Dial(ctx, os.Args[1], frontend.StreamSettings{Name: "old"})
	for e := uint64(0); err == nil && e < n; e++ {
		err = s.Send(ctx, e, bytes.Repeat(fmt.Appendf(nil, "%d.", e), int(e%40)))
	}
	if err == nil {
		err = s.Close(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
