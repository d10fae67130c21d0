package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// A producer for tests, as produce.c: produce RING EVENTS SIZE [drop].
func main() {
	if err := produce(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(args []string) error {
	ctx := context.Background()
	r, err := OpenRing(ctx, args[0], RingSettings{Type: 7, Drop: len(args) > 3})
	if err != nil {
		return err
	}
	events, _ := strconv.ParseUint(args[1], 10, 64)
	largest, _ := strconv.ParseUint(args[2], 10, 64)
	fmt.Println(r.Expected())
	for e := r.Expected(); events == 0 || e < events; e++ {
		data := make([]byte, 8+e*7919%(largest-7))
		for i := range data {
			data[i] = byte(e)
		}
		binary.LittleEndian.PutUint64(data, e)
		if err := r.Put(ctx, e, data); err != nil && !errors.Is(err, ErrFull) {
			return err
		}
	}
	dropped := r.Dropped()
	if err := r.End(); err != nil {
		return err
	}
	fmt.Println("dropped", dropped, "safe", r.Safe())
	return nil
}
