package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/netns"
)

// Other processes find a bed by an abstract socket, which ends with the process that holds it and has no file. They
// send one request in a packet, "bed" or "down", and get one packet of JSON; with "bed" it carries the namespaces, as
// files.
const (
	queryBed  = "bed"
	queryDown = "down"
	// queryTimeout bounds a request and its answer, which take microseconds.
	queryTimeout = 5 * time.Second
	maxAnswer    = 64 << 10 // bytes of JSON; a Spec with a rate for each of maxHosts is a twentieth of that
)

// DefaultName is the name of a bed if the user gives none.
const DefaultName = "testbed"

func socketOf(name string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@ringlet-testbed/" + name, Net: "unixpacket"}
}

// CheckName says why a bed cannot have that name, or returns nil.
func CheckName(name string) error {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name,
		func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
		return fmt.Errorf("%q is no name of a test bed: 1 to 64 printable characters, no space and no slash", name)
	}
	return nil
}

// A NotUpError says that no process holds a bed of that name.
type NotUpError struct{ Name string }

func (e *NotUpError) Error() string {
	return fmt.Sprintf("no test bed %q is up: ringlet testbed up makes one", e.Name)
}

// A Holder keeps a bed for other processes.
type Holder struct{ lis *net.UnixListener }

// ClaimName claims the name of a bed, before the bed is made.
func ClaimName(name string) (*Holder, error) {
	lis, err := net.ListenUnix("unixpacket", socketOf(name))
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("a test bed %q is up already: end it with ringlet testbed down, or give this one another name",
			name)
	}
	if err != nil {
		return nil, err
	}
	return &Holder{lis}, nil
}

// Close frees the name.
func (h *Holder) Close() error { return h.lis.Close() }

// Hold answers requests for the bed until ctx ends or a process takes the bed down. It reports each refused request.
func (h *Holder) Hold(ctx context.Context, bed *Bed, report func(string)) error {
	defer context.AfterFunc(ctx, func() { _ = h.lis.Close() })()
	for {
		c, err := h.lis.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		down, err := answer(c, bed)
		if err = errors.Join(err, c.Close()); err != nil {
			report("refused: " + err.Error())
		}
		if down {
			return nil
		}
	}
}

// answer answers one request, and says whether the bed is to end.
func answer(c *net.UnixConn, bed *Bed) (down bool, err error) {
	if err := checkSameUser(c); err != nil {
		return false, err
	}
	_ = c.SetDeadline(time.Now().Add(queryTimeout))
	question := make([]byte, 64)
	n, err := c.Read(question)
	if err != nil {
		return false, err
	}
	switch question = question[:n]; string(question) {
	case queryBed:
		text, err := json.Marshal(bed.spec)
		if err != nil {
			return false, err
		}
		var files []int
		for _, n := range bed.namespaces() {
			files = append(files, n.FD())
		}
		_, _, err = c.WriteMsgUnix(text, unix.UnixRights(files...), nil)
		return false, err
	case queryDown:
		_, err := c.Write([]byte("{}"))
		return true, err
	}
	return false, fmt.Errorf("the request %q is unknown: there are %s and %s", question, queryBed, queryDown)
}

// checkSameUser returns an error if the other end belongs to another user: any user may connect to an abstract socket.
func checkSameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if e := raw.Control(
		func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil ||
		err != nil {
		return errors.Join(e, err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("the process %d at the other end belongs to user %d", cred.Pid, cred.Uid)
	}
	return nil
}

// query sends a request to the holder of a bed.
func query(name, question string) (*net.UnixConn, error) {
	c, err := net.DialUnix("unixpacket", nil, socketOf(name))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &NotUpError{name}
	}
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(queryTimeout))
	err = checkSameUser(c)
	if err == nil {
		_, err = c.Write([]byte(question))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// TakeDown ends the bed of that name. Processes in it go on until they end by themselves.
func TakeDown(name string) error {
	c, err := query(name, queryDown)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.Read(make([]byte, maxAnswer))
	return err
}

// Attach finds the bed that another process holds. The caller closes it, as one from New.
func Attach(name string) (*Bed, error) {
	if err := CheckPossible(); err != nil {
		return nil, err
	}
	c, err := query(name, queryBed)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	b, err := receive(c)
	if err != nil {
		return nil, fmt.Errorf("the test bed %q: %w", name, err)
	}
	return b, nil
}

// receive reads what answer sends.
func receive(c *net.UnixConn) (*Bed, error) {
	text, rights := make([]byte, maxAnswer), make([]byte, unix.CmsgSpace(4*(maxHosts+2)))
	n, rn, _, _, err := c.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, err
	}
	files, err := parseFiles(rights[:rn])
	if err != nil {
		return nil, err
	}
	b := &Bed{}
	for i, f := range files {
		switch ns := netns.FromFile(f); i {
		case 0:
			b.switchNS = ns
		case 1:
			b.controlNS = ns
		default:
			b.hostNS = append(b.hostNS, ns)
		}
	}
	if err := json.Unmarshal(text[:n], &b.spec); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if b.switchNS == nil || b.controlNS == nil || len(b.hostNS) != b.spec.Hosts {
		return nil, errors.Join(fmt.Errorf("the process that holds the test bed sent %d network namespaces, and not %d: "+
			"of the switch, the control and %d hosts", len(files), b.spec.Hosts+2, b.spec.Hosts), b.Close())
	}
	return b, nil
}

// parseFiles takes the files out of a control message.
func parseFiles(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var out []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return out, err
		}
		for _, fd := range fds {
			out = append(out, os.NewFile(uintptr(fd), "namespace"))
		}
	}
	return out, nil
}
