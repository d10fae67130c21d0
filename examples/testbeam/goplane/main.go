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

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: goplane ADDRESS PLANE EVENTS RATE")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "plane %s: %v\n", os.Args[2], err)
		os.Exit(1)
	}
}

// run sends the plane's fragment of each event.
func run(ctx context.Context, address string, args []string) error {
	var n [2]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(args[i], 10, 32); err != nil {
			return err
		}
	}
	rate, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	var pause time.Duration
	if s := os.Getenv("PAUSE"); s != "" {
		if pause, err = time.ParseDuration(s + "s"); err != nil {
			return err
		}
	}
	plane, events := n[0], n[1]
	s, err := frontend.Dial(ctx, address, frontend.StreamSettings{Name: "plane " + args[0]})
	if err != nil {
		return err
	}
	begin, first := time.Now(), s.Next()
	for event := first; event < events; event++ {
		if rate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(float64(event-first) / rate * float64(time.Second)))))
		}
		if event == events/2 {
			time.Sleep(pause)
		}
		if err := s.Send(ctx, event, measure(event, plane)); err != nil {
			return err
		}
	}
	time.Sleep(pause)
	return s.Close(ctx)
}

// mix is splitmix64.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// measure is what telescope.py says that a plane measures: pairs of strip and charge.
func measure(event, plane uint64) (data []byte) {
	track, own := mix(event), mix(event<<8|plane)
	strip := 64 + track%128 + (track>>8)%9*plane
	charge := 30 + own%40
	if own>>8&7 == 0 {
		charge += (own >> 16) % 150
	}
	values := []uint64{strip, charge, strip + 1, charge / 3, (own >> 32) % 256, 1 + (own>>40)%6}
	if own>>48&1 == 0 {
		values = values[:4]
	}
	for _, v := range values {
		data = binary.LittleEndian.AppendUint16(data, uint16(v))
	}
	return data
}
