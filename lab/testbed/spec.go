package testbed

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ringlet/internal/decimal"
	"ringlet/internal/safeopen"
	"ringlet/node/config"
)

// Spec describes a bed. Zero values are defaults, which Complete fills in.
type Spec struct {
	Hosts int          `yaml:"hosts"` // default: 4
	Rate  Rate         `yaml:"rate"`  // of each port, in each direction; default: 200 Mbit/s
	Queue config.Bytes `yaml:"queue"` // of the switch in front of each host; default: 32 KiB
	// Burst is what an idle host may send at once; default: a batch of 68 KiB, or 2.75 ms of the rate if that is less.
	Burst config.Bytes `yaml:"burst"`
	MTU   int          `yaml:"mtu"`   // default: 1500
	Ports Rates        `yaml:"ports"` // ports whose rates differ from Rate
	// Leaves and Spines are the switches of a fat tree; default: none, there is one switch.
	Leaves int `yaml:"leaves"`
	Spines int `yaml:"spines"`

	document *config.Document // from which values were read; may be nil
	flags    map[string]bool  // keys given by flags
}

// Rates are rates of single ports by host. The text form is n2=50Mbit,n5=100Mbit.
type Rates map[string]Rate

// UnmarshalText reads the text form, for kong and YAML.
func (r *Rates) UnmarshalText(text []byte) error {
	out := Rates{}
	if len(text) == 0 {
		*r = out
		return nil
	}
	for entry := range strings.SplitSeq(string(text), ",") {
		host, rate, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if _, twice := out[host]; !ok || twice {
			return fmt.Errorf("%q is not a list of hosts with their rates, each once, such as n2=50Mbit,n5=100Mbit", text)
		}
		v, err := parseRate(rate)
		if err != nil {
			return err
		}
		out[host] = v
	}
	*r = out
	return nil
}

// MarshalText writes the text form.
func (r Rates) MarshalText() ([]byte, error) {
	var out []string
	for _, host := range slices.Sorted(maps.Keys(r)) {
		out = append(out, host+"="+r[host].String())
	}
	return []byte(strings.Join(out, ",")), nil
}

// Rate is bits per second. Its text form is a number with a unit: bit, kbit, Mbit, Gbit are powers of 1000.
type Rate int64

var rateUnits = []struct {
	name string
	size int64
}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// parseRate reads the text form.
func parseRate(s string) (Rate, error) {
	text := strings.TrimSpace(s)
	for _, u := range rateUnits {
		n := len(text) - len(u.name)
		if n <= 0 || !strings.EqualFold(text[n:], u.name) {
			continue
		}
		f, err := decimal.Float(strings.TrimSpace(text[:n]))
		if err != nil || math.IsNaN(f) || f <= 0 || f*float64(u.size) > 1e15 {
			break
		}
		return Rate(f * float64(u.size)), nil
	}
	return 0, fmt.Errorf("rate %q is not a number with a unit such as 200Mbit, 1.5Gbit", s)
}

// UnmarshalText reads the text form, for kong and YAML.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := parseRate(string(text))
	if err == nil {
		*r = v
	}
	return err
}

// MarshalText writes the text form.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String writes the rate exactly, in the largest unit that divides it.
func (r Rate) String() string {
	for _, u := range rateUnits {
		if r != 0 && int64(r)%u.size == 0 {
			return strconv.FormatInt(int64(r)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(r), 10) + "bit"
}

// Bounds of a bed.
const (
	// maxHosts: one message over a Unix socket hands over all namespaces, as files, and can carry 253 files.
	maxHosts = 128
	// minRate lets a full packet through in 12 ms; below, time-outs would expire.
	minRate = 1_000_000
	maxRate = 100_000_000_000
	// minMTU is what IPv6 and QUIC ask of any path; maxMTU is a jumbo frame.
	minMTU, maxMTU = 1280, 9216
	maxQueueBytes  = 64 << 20 // of queues and bursts: seconds of 100 Mbit/s
	// frameHead is the size of an Ethernet header, which queues and rates count as part of the packet.
	frameHead = 14
)

// LoadSpec reads a YAML file with the names of the flags as keys. Invalid content is a *config.InvalidError with file,
// line and sentence.
func LoadSpec(path string) (Spec, error) {
	f, err := safeopen.Open(path)
	if err != nil {
		return Spec{}, err
	}
	defer func() { _ = f.Close() }()
	var s Spec
	doc, err := config.Read(path, f, &s)
	if err == nil {
		err = doc.Err()
	}
	s.document = doc
	return s, err
}

// Override replaces values of the file by those of flags.
func (s *Spec) Override(over Spec) {
	s.flags = map[string]bool{
		"hosts": over.Hosts != 0, "rate": over.Rate != 0, "queue": over.Queue != 0, "burst": over.Burst != 0,
		"mtu": over.MTU != 0, "ports": over.Ports != nil, "leaves": over.Leaves != 0, "spines": over.Spines != 0,
	}
	s.Hosts, s.Rate = cmp.Or(over.Hosts, s.Hosts), cmp.Or(over.Rate, s.Rate)
	s.Queue, s.Burst, s.MTU = cmp.Or(over.Queue, s.Queue), cmp.Or(over.Burst, s.Burst), cmp.Or(over.MTU, s.MTU)
	s.Leaves, s.Spines = cmp.Or(over.Leaves, s.Leaves), cmp.Or(over.Spines, s.Spines)
	if over.Ports != nil {
		s.Ports = over.Ports
	}
}

// Complete fills in defaults and checks all values. Its error is a *config.InvalidError.
func (s *Spec) Complete() error {
	s.Hosts, s.Rate = cmp.Or(s.Hosts, 4), cmp.Or(s.Rate, 200_000_000)
	s.Queue, s.MTU = cmp.Or(s.Queue, 32<<10), cmp.Or(s.MTU, 1500)
	var p []config.Problem
	add := func(key, format string, args ...any) {
		if s.document != nil && s.document.Contains(key) && !s.flags[key] {
			s.document.AddProblem(key, format, args...)
			return
		}
		p = append(p, config.Problem{Key: key, Reason: fmt.Sprintf(format, args...)})
	}
	if s.Hosts < 1 || s.Hosts > maxHosts {
		add("hosts", "%d is not between 1 and %d", s.Hosts, maxHosts)
	}
	checkRate := func(key, of string, r Rate) {
		if r < minRate || r > maxRate {
			add(key, "%s%v is not between %v and %v", of, r, Rate(minRate), Rate(maxRate))
		}
	}
	checkRate("rate", "", s.Rate)
	if s.MTU < minMTU || s.MTU > maxMTU {
		add("mtu", "%d is not between %d and %d", s.MTU, minMTU, maxMTU)
	}
	checkSize := func(key string, size config.Bytes) {
		if least := config.Bytes(2 * s.frame()); size < least || size > maxQueueBytes {
			add(key, "%v is not between two full packets (%d bytes) and %v", size, least, config.Bytes(maxQueueBytes))
		}
	}
	checkSize("queue", s.Queue)
	if s.Burst != 0 {
		checkSize("burst", s.Burst)
	}
	s.checkTree(add)
	for _, host := range slices.Sorted(maps.Keys(s.Ports)) {
		if i, ok := hostIndex(host); !ok || i >= s.Hosts {
			add("ports", "%q is not a host of this bed: they are n0 to n%d", host, s.Hosts-1)
		}
		checkRate("ports", host+"=", s.Ports[host])
	}
	var invalid *config.InvalidError
	if s.document != nil && errors.As(s.document.Err(), &invalid) {
		p = append(invalid.Problems, p...)
	}
	if len(p) > 0 {
		return &config.InvalidError{Problems: p}
	}
	return nil
}

// frame is the size of a full packet as queues count it.
func (s *Spec) frame() int { return s.MTU + frameHead }

// rate of a host's port.
func (s *Spec) rate(host int) Rate {
	if r, ok := s.Ports[hostName(host)]; ok {
		return r
	}
	return s.Rate
}

// SlowestRate is the rate of the slowest port: the rate of all ports if all hosts send and receive the same.
func (s *Spec) SlowestRate() Rate {
	least := s.rate(0)
	for host := range s.Hosts {
		least = min(least, s.rate(host))
	}
	return least
}

func hostName(i int) string { return "n" + strconv.Itoa(i) }

// hostIndex reads a host's name.
func hostIndex(name string) (int, bool) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	return i, err == nil && name == hostName(i) && i >= 0
}
