package bench

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"ringlet/internal/address"
	"ringlet/internal/registry"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/transport"
)

// Config of a measurement.
type Config struct {
	Version  string
	Command  string         // a shell command that repeats the measurement
	Carriers []string       // names of the table carriers
	Sizes    []config.Bytes // of a remote write
	Duration time.Duration  // of each measurement of throughput
	Rounds   int            // the report gives their median
	Spin     time.Duration  // how long processes look for data before they sleep; 0 sleeps at once
	Procs    int            // processors that each process may use at a time; the caller has set this process's
	Memory   config.Bytes   // exported by the far process, and mapped for the copy
	MPI      bool           // run the reference OpenMPI, if installed
	IPerf    bool           // run the reference iperf3, if installed
	FullRuns bool           // measure whole runs as well
	Program  string         // for whole runs: the path of this program

	Host     string          // address to bind
	Identity *certs.Identity // of this process
	FarName  string          // the far process's name
	PeerAddr string          // address of the far process on another machine; empty: the far process is started here
	// StartFar returns a connection to a far process that has proved its name, and a function that ends that process.
	StartFar func() (conn net.Conn, stop func(), err error)
	// Progress is called with the name of the next measurement and the share of the work done. It may be nil.
	Progress func(what string, done, of int)
}

// comparedReferences are the references that a carrier's throughput is compared with, by carrier: the first reference
// that was measured counts.
var comparedReferences = map[string][]string{
	"quic":    {refIPerf, refTCP},
	"quic-go": {refQUIC},
	"local":   {refCopy},
}

// referencesFor lists the references that a carrier is compared with at a size.
func referencesFor(c transport.CarrierKind, size int) []string {
	if c.SameHost && size <= maxSmallWrite {
		return []string{refCopySmall}
	}
	if others := comparedReferences[c.Name]; others != nil {
		return others
	}
	return []string{refTCP}
}

func carrierOf(name string) (transport.CarrierKind, bool) {
	c, err := registry.Find("carrier", transport.Kinds, name)
	return c, err == nil
}

// carrierNames lists what Config.Carriers may name.
func carrierNames() []string { return registry.Names(transport.Kinds) }

// Default is the configuration of raw measurements that a sweep names.
func Default() Config {
	return Config{
		Carriers: carrierNames(),
		Sizes:    []config.Bytes{blockSize},
		Duration: 500 * time.Millisecond,
		Rounds:   1,
		Spin:     time.Millisecond,
		Procs:    DefaultProcs(2),
		Memory:   256 << 20,
		Host:     "127.0.0.1",
	}
}

// Bounds of a measurement.
const (
	maxRounds   = 1000
	maxWrite    = 64 << 20
	maxWindows  = 4096 // windows in rotation: the references to them must fit a message
	minMemory   = 4 << 20
	maxMemory   = 16 << 30
	minDuration = 10 * time.Millisecond
	maxDuration = 10 * time.Minute
)

// UsageError is a setting with an invalid value.
type UsageError struct{ Setting, Why string }

func (e *UsageError) Error() string { return "bench: " + e.Setting + ": " + e.Why }

func usageErrorf(setting, why string, args ...any) error {
	return &UsageError{setting, fmt.Sprintf(why, args...)}
}

// checkRange refuses a value outside of two bounds.
func checkRange[T cmp.Ordered](setting string, v, least, most T) error {
	if !(v >= least && v <= most) {
		return usageErrorf(setting, "%v is not between %v and %v", v, least, most)
	}
	return nil
}

// checkCount refuses a number of things outside of two bounds.
func checkCount(setting string, n, least, most int) error {
	if n < least || n > most {
		return usageErrorf(setting, "%d are not between %d and %d", n, least, most)
	}
	return nil
}

// checkWords refuses a size that is not a multiple of the word size, or is too large.
func checkWords(setting string, size, most config.Bytes) error {
	if size < wordSize || size > most || size%wordSize != 0 {
		return usageErrorf(setting, "%s is not whole words of 8 B, from 8 B to %s", size, most)
	}
	return nil
}

// Validate returns the first invalid setting as a *UsageError.
func (c *Config) Validate() error {
	if len(c.Carriers) == 0 {
		return usageErrorf("carriers", "no carrier is given: name some of %s", strings.Join(carrierNames(), ", "))
	}
	for i, name := range c.Carriers {
		if _, ok := carrierOf(name); !ok {
			return usageErrorf("carriers", "%q is not one of %s", name, strings.Join(carrierNames(), ", "))
		}
		if slices.Contains(c.Carriers[:i], name) {
			return usageErrorf("carriers", "%s is named twice", name)
		}
	}
	if err := checkRange[config.Bytes]("memory", c.Memory, minMemory, maxMemory); err != nil {
		return err
	}
	if len(c.Sizes) == 0 {
		return usageErrorf("sizes", "no size is given: give some as 128,1MiB")
	}
	for i, s := range c.Sizes {
		switch {
		case s < 1 || s > maxWrite:
			return usageErrorf("sizes", "%s is not between 1 B and %s", s, config.Bytes(maxWrite))
		case 4*s > c.Memory:
			return usageErrorf("sizes", "four writes of %s do not fit into the memory of %s", s, c.Memory)
		case slices.Contains(c.Sizes[:i], s):
			return usageErrorf("sizes", "%s is named twice", s)
		}
	}
	if err := cmp.Or(checkRange("rounds", c.Rounds, 1, maxRounds),
		checkRange("duration", c.Duration, minDuration, maxDuration), checkRange("spin", c.Spin, 0, time.Second),
		checkRange("procs", c.Procs, 0, MaxProcs)); err != nil {
		return err
	}
	if c.PeerAddr != "" && c.FullRuns {
		return usageErrorf("runs", "whole runs are of one machine: leave --peer out")
	}
	if err := address.CheckHost(c.Host); err != nil {
		return usageErrorf("host", "%v", err)
	}
	if c.PeerAddr != "" {
		if err := address.CheckDial(c.PeerAddr); err != nil {
			return usageErrorf("peer", "%v", err)
		}
		host, _, _ := net.SplitHostPort(c.PeerAddr)
		if net.ParseIP(c.Host).IsLoopback() && !net.ParseIP(host).IsLoopback() && host != "localhost" {
			return usageErrorf("host", "%s cannot be reached from %s: give another address of this machine", c.Host, host)
		}
	}
	return nil
}

// MaxProcs is how many processors a process may be told to use: Go's runtime allocates memory for each.
const MaxProcs = 4096

// DefaultProcs is how many processors each of n processes should use at a time: one if the machine has fewer than 2n
// cores, else all.
func DefaultProcs(n int) int {
	if n > runtime.NumCPU()/2 {
		return 1
	}
	return runtime.NumCPU()
}

func (c *Config) reportProgress(what string, done, of int) {
	if c.Progress != nil {
		c.Progress(what, done, of)
	}
}
