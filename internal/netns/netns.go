package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckSupported returns why this process cannot make namespaces; nil: it can.
func CheckSupported() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("network namespaces need the program ip: %w", err)
	}
	n, err := New()
	if err != nil {
		return err
	}
	return n.Close()
}

// A Namespace is a network of its own. Sockets opened and processes started in it stay in it.
type Namespace struct {
	file *os.File
	fd   int // of file; File.Fd is called once only, since it changes the file
}

// New makes a namespace with nothing but a loopback interface, which is up.
func New() (*Namespace, error) {
	var file *os.File
	err := runOnNewThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("no network namespace can be made here: %w", err)
		}
		file, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		return err
	})
	if err != nil {
		return nil, err
	}
	n := FromFile(file)
	if err := n.IP("link", "set", "lo", "up"); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close closes this reference; the namespace ends with the last process or socket in it.
func (n *Namespace) Close() error { return n.file.Close() }

// runOnNewThread runs f on a new thread, and ends the thread when f returns: so no other goroutine ever runs in the
// namespace that f has entered.
func runOnNewThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // without unlock: a thread that is locked when its goroutine ends, ends too
		if unix.Gettid() == unix.Getpid() {
			// The main thread does not end, and stands for the process in /proc. While this goroutine occupies it, the next one
			// gets another thread.
			err := runOnNewThread(f)
			runtime.UnlockOSThread()
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// Do runs f in the namespace. Sockets that f opens and processes that it starts stay there; goroutines that it starts
// do not run there. f must not start a process with a death signal (Pdeathsig): the thread that starts it ends at once.
func (n *Namespace) Do(f func() error) error {
	return runOnNewThread(func() error {
		if err := n.Enter(); err != nil {
			return err
		}
		return f()
	})
}

// Enter moves the calling thread to the namespace. The caller has locked its goroutine to the thread and does not
// unlock it: the thread must end with the goroutine, or execute another program.
func (n *Namespace) Enter() error {
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("the network namespace cannot be entered: %w", err)
	}
	return nil
}

// Run runs a program in the namespace to its end, with text as its standard input, and returns its standard output.
func (n *Namespace) Run(text, program string, args ...string) (out []byte, err error) {
	err = n.Do(func() error {
		var stderr bytes.Buffer
		cmd := exec.Command(program, args...)
		cmd.Stdin, cmd.Stderr = strings.NewReader(text), &stderr
		if out, err = cmd.Output(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
		}
		return nil
	})
	return out, err
}

// IP runs the program ip in the namespace.
func (n *Namespace) IP(args ...string) error {
	_, err := n.Run("", "ip", args...)
	return err
}

// FD is the descriptor of the namespace. A caller can pass it to another process, which calls FromFile. Close closes
// it.
func (n *Namespace) FD() int { return n.fd }

// FromFile makes a Namespace of a file that another process has passed, and owns the file from then on.
func FromFile(f *os.File) *Namespace { return &Namespace{f, int(f.Fd())} }

// Path is a path by which another process can open the namespace while this process lives.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.fd) }

// An Interface is one end of a pair.
type Interface struct {
	Namespace *Namespace
	Name      string
	Addr      string // with its prefix, 10.0.0.1/24; empty: none
	MTU       int    // zero: the kernel's, 1500
}

// NewInterface is an interface with all fields set.
func NewInterface(in *Namespace, name, addr string, mtu int) Interface {
	return Interface{
		Namespace: in,
		Name:      name,
		Addr:      addr,
		MTU:       mtu,
	}
}

// Connect makes a pair of interfaces and brings both up.
func Connect(a, b Interface) error {
	if err := a.Namespace.IP("link", "add", "name", a.Name, "type", "veth", "peer", "name", b.Name, "netns",
		b.Namespace.Path()); err != nil {
		return err
	}
	for _, i := range [...]Interface{a, b} {
		if i.MTU != 0 {
			if err := i.Namespace.IP("link", "set", "dev", i.Name, "mtu", fmt.Sprint(i.MTU)); err != nil {
				return err
			}
		}
		if i.Addr != "" {
			if err := i.Namespace.IP("addr", "add", i.Addr, "dev", i.Name); err != nil {
				return err
			}
		}
		if err := i.Namespace.IP("link", "set", "dev", i.Name, "up"); err != nil {
			return err
		}
	}
	return nil
}

// EnableForwarding makes the namespace a router.
func (n *Namespace) EnableForwarding() error {
	return n.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
}
