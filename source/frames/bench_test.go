package frames

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"ringlet/source/live"
	"ringlet/testkit/patiently"
)

// batch is how many bytes the front-end of a benchmark writes at once.
const batch = 1 << 18

// BenchmarkTCP is a feed beside a bare socket that takes the same bytes in the same pieces.
func BenchmarkTCP(b *testing.B) {
	for _, size := range []int{128, 1024, 8192} {
		for _, kind := range []string{"checked", "unchecked"} {
			b.Run(fmt.Sprintf("feed/%d/%s", size, kind), func(b *testing.B) { benchFeed(b, size, kind == "checked") })
		}
		b.Run(fmt.Sprintf("bare/%d", size), func(b *testing.B) { benchBare(b, size) })
	}
}

// made are frames as a front-end makes them, into one piece of memory.
func made(buf []byte, next *uint64, n int, data []byte, flags uint8) []byte {
	for range n {
		buf = appendFrame(buf, frame{Event: *next, Flags: flags, Data: data})
		*next++
	}
	return buf
}

func benchFeed(b *testing.B, size int, checked bool) {
	f := openTCP(b)
	p, _ := connect(b, f, plain)
	flags := uint8(flagUnchecked)
	if checked {
		flags = 0
	}
	b.SetBytes(int64(size))
	b.ResetTimer()
	sent := make(chan error, 1)
	go func() {
		var next uint64
		var err error
		data, buf := make([]byte, size), make([]byte, 0, 2*batch)
		for remaining := b.N; remaining > 0 && err == nil; {
			n := min(remaining, max(batch/(size+frameSize), 1))
			_, err = p.Write(made(buf[:0], &next, n, data, flags))
			remaining -= n
		}
		sent <- err
	}()
	dst := make([]live.Fragment, 1024)
	for got := 0; got < b.N; {
		n, err := f.Next(b.Context(), dst)
		if err != nil {
			b.Fatal(err)
		}
		f.ReleaseFragments(n)
		got += n
	}
	if err := patiently.Receive(b, sent); err != nil {
		b.Fatal(err)
	}
}

func benchBare(b *testing.B, size int) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	c, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	in, err := lis.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ResetTimer()
	go func() {
		buf := make([]byte, batch)
		for remaining := b.N * size; remaining > 0; {
			n, err := c.Write(buf[:min(remaining, batch)])
			if err != nil {
				return
			}
			remaining -= n
		}
		_ = c.Close()
	}()
	buf := make([]byte, maxReadBytes)
	for got := 0; ; {
		n, err := in.Read(buf)
		if got += n; err != nil {
			if got < b.N*size || !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
			break
		}
	}
	b.StopTimer()
	_ = in.Close()
	_ = lis.Close()
}
