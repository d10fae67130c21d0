package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/address"
	"ringlet/node/certs"
	"ringlet/node/hostlimits"
)

// What a directory is for.
const (
	useState  = "state"
	useOutput = "output"
)

// Options say where to look.
type Options struct {
	Host     string   // address that services bind
	Ports    []string // NUMBER or NUMBER/udp
	Peer     string   // host to which the path is probed; "" is none
	ClockURL string   // URL of the host whose clock to compare; "" is none
	State    string   // directory of the control's records; "" is none
	Outputs  []string // files and directories that events are written to
	Certs    string   // directory of certificates; "" is none
}

// Read looks at this host. It probes the path to the peer and reads the other clock at the same time.
func Read(ctx context.Context, o Options) (Facts, error) {
	f := Facts{
		Limits:          hostlimits.ReadSnapshot(o.Host),
		Interfaces:      interfaces(),
		UsableMemory:    hostlimits.MemoryLimit(),
		AvailableMemory: availableMemory("/proc/meminfo"),
		MaxOpenFiles:    openFiles(),
		Clock:           readClock(),
		Directories:     []Directory{inspectDirectory(useState, o.State)},
	}
	f.Certs = certificates(o.Certs, time.Now())
	for _, out := range o.Outputs {
		f.Directories = append(f.Directories, inspectDirectory(useOutput, outputDir(out)))
	}
	for _, p := range o.Ports {
		port, err := tryPort(ctx, o.Host, p)
		if err != nil {
			return Facts{}, err
		}
		f.Ports = append(f.Ports, port)
	}
	var far sync.WaitGroup
	if o.Peer != "" {
		far.Go(func() { f.Path = probePath(ctx, o.Peer) })
	}
	if o.ClockURL != "" {
		far.Go(func() { f.RemoteClock = readRemoteClock(ctx, o.ClockURL) })
	}
	far.Wait()
	return f, ctx.Err()
}

// certificates lists the certificates in a directory.
func certificates(dir string, now time.Time) (list []Certificate) {
	if dir == "" {
		return nil
	}
	ends, err := certs.Expiries(dir)
	switch {
	case err != nil:
		return []Certificate{{Err: err.Error()}}
	case len(ends) == 0:
		return []Certificate{{Err: "there is no certificate in " + dir}}
	}
	for _, e := range ends {
		c := Certificate{Name: e.Name}
		if e.Err != nil {
			c.Err = e.Err.Error()
		} else {
			c.NotAfter, c.RemainingS = e.NotAfter.UTC(), e.NotAfter.Sub(now).Seconds()
		}
		list = append(list, c)
	}
	return list
}

func interfaces() []Interface {
	all, _ := net.Interfaces() // without interfaces there is nothing to check
	var out []Interface
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 {
			out = append(out, Interface{Name: i.Name, MTU: i.MTU, Loopback: i.Flags&net.FlagLoopback != 0})
		}
	}
	return out
}

// availableMemory is the free memory in bytes, 0 if it could not be found.
func availableMemory(meminfo string) int64 {
	f, err := os.Open(meminfo)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemAvailable:" {
			kB, _ := strconv.ParseInt(fields[1], 10, 64) // 0 is "not found" as well
			return kB << 10
		}
	}
	return 0
}

// openFiles is the limit of a Go program, which raises its soft limit to the hard one.
func openFiles() uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return l.Max
}

// tryPort binds a port for a moment.
func tryPort(ctx context.Context, host, text string) (Port, error) {
	number, network, hasNetwork := strings.Cut(text, "/")
	if !hasNetwork {
		network = "tcp"
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 || network != "tcp" && network != "udp" {
		return Port{}, fmt.Errorf("ports: %q is no port: write 7946, or 7946/udp", text)
	}
	p := Port{Name: number + "/" + network}
	var c io.Closer
	var err error
	if at := net.JoinHostPort(host, number); network == "udp" {
		c, err = address.ListenUDP(at)
	} else {
		c, err = address.Listen(ctx, net.ListenConfig{}, at)
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		p.InUse = true
	case err != nil:
		p.Err = err.Error()
	default:
		_ = c.Close()
	}
	return p, nil
}

// outputDir is the directory of an output: the output itself, or the directory of a file.
func outputDir(output string) string {
	if strings.HasSuffix(output, "/") {
		return output
	}
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		return output
	}
	return filepath.Dir(output)
}

// networkFSTypes are network file systems: NFS, CIFS, SMB2, Ceph. FUSE's sshfs is not among them: FUSE may be local.
var networkFSTypes = []int64{unix.NFS_SUPER_MAGIC, 0xff534d42, 0xfe534d42, 0x00c36400}

// inspectDirectory looks at a directory; if it does not exist yet, at the nearest one above it that does.
func inspectDirectory(use, path string) Directory {
	p := Directory{Use: use, Path: path}
	if path == "" {
		return p
	}
	at, err := filepath.Abs(path)
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(at); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no directory", at)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		at, err = filepath.Dir(at), nil
	}
	var fsys unix.Statfs_t
	if err == nil {
		err = unix.Statfs(at, &fsys)
	}
	if err != nil {
		p.Err = err.Error()
		return p
	}
	p.Free, p.Writable = int64(fsys.Bavail)*fsys.Bsize, unix.Access(at, unix.W_OK|unix.X_OK) == nil
	for _, t := range networkFSTypes {
		p.NetworkFS = p.NetworkFS || int64(uint32(fsys.Type)) == t
	}
	return p
}
