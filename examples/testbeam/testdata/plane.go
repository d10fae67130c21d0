//go:build ignore

// A front-end in Go: one plane of the telescope, over a stream.
//
//	go build -o plane-go examples/testbeam/testdata/plane.go
//	plane-go ADDRESS PLANE EVENTS PAUSE
//
// It sends as fast as it goes, waits PAUSE seconds and closes.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"time"

	"ringlet/clients/frontend"
)

// mix is splitmix64.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// fragment is what telescope.py has.
func fragment(event, plane uint64) []byte {
	track, own := mix(event), mix(event<<8|plane)
	strip := 64 + track%128 + (track>>8)%9*plane
	charge := 30 + own%40
	if own>>8&7 == 0 {
		charge += (own >> 16) % 150
	}
	pairs := []uint64{strip, charge, strip + 1, charge / 3, (own >> 32) % 256, 1 + (own>>40)%6}
	if own>>48&1 == 0 {
		pairs = pairs[:4]
	}
	var out []byte
	for _, x := range pairs {
		out = binary.LittleEndian.AppendUint16(out, uint16(x))
	}
	return out
}

func run() error {
	var numbers [3]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(os.Args[2+i], 10, 64); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	s, err := frontend.Dial(ctx, os.Args[1], frontend.StreamSettings{Name: "plane " + os.Args[2]})
	if err != nil {
		return err
	}
	for e := s.Next(); e < numbers[1]; e++ {
		if err := s.Send(ctx, e, fragment(e, numbers[0])); err != nil {
			return err
		}
	}
	time.Sleep(time.Duration(numbers[2]) * time.Second)
	return s.Close(ctx)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
