package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"ringlet/testkit/patiently"
)

// runStuck is a front-end of scripts that is killed while Ringlet has no room:
//
//	stuck PATH EVENTS
//
// It sends events of 50 bytes to a Unix-domain socket until none goes for a while, and kills itself. It ends with 0
// if it cannot do that: if it is not let in, or if all events go.
func runStuck() {
	fmt.Println(stick(os.Args[1], os.Args[2]))
}

func stick(path, number string) error {
	var events uint64
	if _, err := fmt.Sscan(number, &events); err != nil {
		return err
	}
	c, next, err := connectFrontend(path)
	if err != nil {
		return err
	}
	piece := make([]byte, 0, 100*70)
	for next < events {
		piece = piece[:0]
		for e := next; e < next+100; e++ {
			piece = binary.LittleEndian.AppendUint64(piece, e)
			piece = append(piece, 50, 0, 0, 0, 1, 0, 0x46, 0x52, 0, 0, 0, 0) // unchecked: docs/format/frames.md
			piece = append(piece, make([]byte, 50)...)
		}
		if err := c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			return err
		}
		if _, err := c.Write(piece); errors.Is(err, os.ErrDeadlineExceeded) {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		} else if err != nil {
			return err
		}
		next += 100
	}
	return errors.New("all events went")
}

// connectFrontend says hello until it is accepted, and from which event on.
func connectFrontend(path string) (net.Conn, uint64, error) {
	for until := time.Now().Add(patiently.LongTimeout); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("unix", path)
		var answer [24]byte
		if err == nil {
			_, err = c.Write(append([]byte("RLFH\x01\xff\xff\xff"), make([]byte, 16)...))
		}
		if err == nil {
			_, err = io.ReadFull(c, answer[:])
		}
		switch {
		case err == nil && answer[5] == 0:
			return c, binary.LittleEndian.Uint64(answer[8:]), nil
		case err == nil:
			err = fmt.Errorf("refused with code %d", answer[5])
		}
		if c != nil {
			_ = c.Close()
		}
		if time.Now().After(until) {
			return nil, 0, err
		}
	}
}
