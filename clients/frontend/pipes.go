package frontend

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a connection to a readout unit.
type conn interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	CloseWrite() error
}

// pipes are the standard output and input of a program that a readout unit runs.
type pipes struct{ in, out *os.File }

func (p *pipes) Read(b []byte) (int, error)        { return p.in.Read(b) }
func (p *pipes) Write(b []byte) (int, error)       { return p.out.Write(b) }
func (p *pipes) SetReadDeadline(t time.Time) error { return p.in.SetReadDeadline(t) }
func (p *pipes) CloseWrite() error                 { return p.out.Close() }
func (p *pipes) Close() error                      { return errors.Join(p.in.Close(), p.out.Close()) }
func (p *pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.in.SetReadDeadline(t), p.out.SetWriteDeadline(t))
}

// openPipes takes standard output and input for the stream. From now on the program's prints go to standard error, and
// from there to the log of the readout unit.
func openPipes() (conn, error) {
	in, err := unix.Dup(0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	out, err := unix.Dup(1)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("dup", err), unix.Close(in))
	}
	err = errors.Join(unix.Dup2(2, 1), unix.SetNonblock(in, true), unix.SetNonblock(out, true)) // for deadlines
	p := &pipes{os.NewFile(uintptr(in), "standard input"), os.NewFile(uintptr(out), "standard output")}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// open connects to the readout unit.
func (s *Stream) open(ctx context.Context) (conn, error) {
	if s.network == "exec" {
		return openPipes()
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	list := addressList(s.network, s.address)
	c, err := d.DialContext(ctx, s.network, list[s.turn%len(list)])
	if err != nil {
		return nil, err
	}
	return c.(conn), nil // a connection of TCP or of a Unix-domain socket
}
