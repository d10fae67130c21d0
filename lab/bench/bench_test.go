package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/lab/trial"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

const host = "127.0.0.1"

// authority issues identities for a test.
func authority(t testing.TB) func(name string) *certs.Identity {
	t.Helper()
	issue := anybody(t)
	return func(name string) *certs.Identity {
		id, err := issue(name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
}

// anybody issues identities of one authority, as the caller of Patterns does.
func anybody(t testing.TB) func(name string) (*certs.Identity, error) {
	t.Helper()
	ca, err := certs.NewCA(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) (*certs.Identity, error) {
		return ca.Issue(name, []string{host}, certs.RoleNode, time.Hour)
	}
}

// farEnd serves one session in this process, and gives what Config.StartFar wants.
func farEnd(t testing.TB, near, far *certs.Identity) func() (net.Conn, func(), error) {
	return func() (net.Conn, func(), error) {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, nil, err
		}
		served := make(chan error, 1)
		go func() {
			conn, name, err := Accept(t.Context(), l, far, nil)
			if err == nil {
				err = Serve(t.Context(), conn, FarConfig{Identity: far, Host: host, Near: name})
				_ = conn.Close() // the near end may be gone and hear no goodbye
			}
			served <- err
		}()
		conn, err := Dial(t.Context(), near, far.Name, l.Addr().String())
		stop := func() {
			_ = conn.Close()
			if err := patiently.Receive(t, served); err != nil {
				t.Errorf("the far end: %v", err)
			}
			_ = l.Close()
		}
		return conn, stop, err
	}
}

func shortConfig(t testing.TB) Config {
	issue := authority(t)
	near, far := issue("near"), issue("far")
	return Config{
		Version:  "test",
		Carriers: []string{"quic"},
		Sizes:    []config.Bytes{128, 64 << 10},
		Duration: 20 * time.Millisecond,
		Rounds:   1,
		Memory:   4 << 20,
		Host:     host,
		Identity: near,
		FarName:  far.Name,
		StartFar: farEnd(t, near, far),
	}
}

func nothingMapped(t *testing.T) {
	t.Helper()
	if remaining, _ := filepath.Glob(fmt.Sprintf("%s/%s*", shmem.DefaultDir, segmentPattern())); len(remaining) > 0 {
		t.Errorf("left behind: %v", remaining)
	}
}

// segmentPattern begins the names of this process's segments.
func segmentPattern() string {
	name := segmentName("")
	return name[:strings.LastIndexByte(strings.TrimSuffix(name, "-"), '-')+1]
}

// TestRun measures for real, if only shortly; no speed is asked for.
func TestRun(t *testing.T) {
	cfg := shortConfig(t)
	var messages []string
	cfg.Progress = func(what string, done, of int) {
		if done > of {
			t.Errorf("%d of %d done", done, of)
		}
		messages = append(messages, what)
	}
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failed) > 0 || r.RoundsDone != 1 || r.Interrupted || len(r.Carriers) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, c := range r.Carriers {
		if c.BytesSent == 0 || c.BytesSent != c.PlacedWrites || c.Goodput.Median <= 0 || c.WriteTimes.P50.Median <= 0 ||
			!c.Encrypted || c.Ratio == nil {
			t.Errorf("%+v", c)
		}
		if small := c.Size <= maxSmallWrite; small != (c.PieceRate != nil) || small != (c.AnsweredTimes != nil) {
			t.Errorf("%d bytes: pieces %v, answers %v", c.Size, c.PieceRate, c.AnsweredTimes)
		}
	}
	var names []string
	for _, f := range r.References {
		names = append(names, f.Name)
	}
	if got, want := strings.Join(names, " "), "copy copy-128 seal udp-gso tcp quic-datagrams udp-trip"; got != want {
		t.Errorf("references %s, want %s", got, want)
	}
	if len(messages) < 8 {
		t.Errorf("little was told on the way: %q", messages)
	}
	nothingMapped(t)
}

// TestRunSpinning takes the other way of waiting, and shifts what it does by a round.
func TestRunSpinning(t *testing.T) {
	cfg := shortConfig(t)
	cfg.Spin, cfg.Rounds, cfg.Sizes, cfg.Duration = 200*time.Microsecond, 2, []config.Bytes{1 << 10}, minDuration
	r, err := Run(t.Context(), cfg)
	if err != nil || len(r.Failed) > 0 || r.RoundsDone != 2 {
		t.Fatalf("%v: %+v", err, r)
	}
	if last := r.References[len(r.References)-1]; last.Name != refTripSpin || last.TripTimes == nil {
		t.Errorf("%+v", last)
	}
}

func TestInterrupted(t *testing.T) {
	cfg := shortConfig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Rounds = 50
	cfg.Progress = func(_ string, done, _ int) {
		if done == 3 {
			time.AfterFunc(cfg.Duration/2, cancel)
		}
	}
	r, err := Run(ctx, cfg)
	if err != nil || r == nil || !r.Interrupted || r.RoundsDone == 50 {
		t.Errorf("%+v, %v", r, err)
	}
	nothingMapped(t)
}

// TestFarEndLost: a far process that goes ends the measurement with a typed error and what there is.
func TestFarEndLost(t *testing.T) {
	cfg := shortConfig(t)
	issue := authority(t)
	near, far := issue("near"), issue("far")
	cfg.Identity = near
	ctx, cancel := context.WithCancel(t.Context())
	cfg.StartFar = func() (net.Conn, func(), error) {
		a, b := net.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- errors.Join(Serve(ctx, b, FarConfig{Identity: far, Host: host, Near: "near"}), b.Close())
		}()
		return a, func() { t.Log(patiently.Receive(t, served)) }, nil
	}
	cfg.Progress = func(_ string, done, _ int) {
		if done == 2 {
			cancel()
		}
	}
	r, err := Run(t.Context(), cfg)
	var lost *lostError
	if !errors.As(err, &lost) || r == nil || len(r.Failed) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	nothingMapped(t)
}

// TestForeignPrograms: a reference by a program that does not work is left out, and no failure.
func TestForeignPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cfg := shortConfig(t)
	cfg.MPI, cfg.IPerf, cfg.Sizes = true, true, []config.Bytes{128}
	r, err := Run(t.Context(), cfg)
	if err != nil || len(r.Failed) > 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	text := strings.Join(r.LeftOut, "\n")
	for _, says := range []string{"iperf3: left out, iperf3 not installed", "OpenMPI: left out, mpicc, mpirun not " +
		"installed"} {
		if !strings.Contains(text, says) {
			t.Errorf("it does not say %q:\n%s", says, text)
		}
	}
	s := &session{failedUnits: map[string]bool{}}
	broken := task{refMPITCP, refMPITCP, refMPITCP,
		func(context.Context) (trial.Figures, error) { return nil, errors.New("it crashed") }}
	if err := s.attempt(t.Context(), &broken); err != nil || len(s.report.Failed) > 0 ||
		len(s.report.LeftOut) != 1 {
		t.Errorf("%v, %+v", err, s.report)
	}
}

func TestUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no carrier": {func(c *Config) { c.Carriers = nil }, "carriers: no carrier is given"},
		"another carrier": {func(c *Config) { c.Carriers = []string{"pigeon"} },
			`"pigeon" is not one of quic, quic-go, stream, local`},
		"a carrier twice":  {func(c *Config) { c.Carriers = []string{"quic", "quic"} }, "quic is named twice"},
		"no size":          {func(c *Config) { c.Sizes = nil }, "sizes: no size is given"},
		"size 0":           {func(c *Config) { c.Sizes = []config.Bytes{0} }, "not between 1 B and 64MiB"},
		"a size twice":     {func(c *Config) { c.Sizes = []config.Bytes{128, 128} }, "named twice"},
		"a size too large": {func(c *Config) { c.Sizes = []config.Bytes{2 << 20} }, "do not fit into the memory of 4MiB"},
		"little memory":    {func(c *Config) { c.Memory = 4096 }, "memory: 4KiB is not between"},
		"no round":         {func(c *Config) { c.Rounds = 0 }, "rounds: 0 is not between 1 and"},
		"no time":          {func(c *Config) { c.Duration = 0 }, "duration: 0s is not between"},
		"negative spin":    {func(c *Config) { c.Spin = -1 }, "spin: -1ns is not"},
		"negative procs":   {func(c *Config) { c.Procs = -1 }, "procs: -1 is not between"},
		"endless procs":    {func(c *Config) { c.Procs = 1 << 40 }, "procs: 1099511627776 is not between 0 and 4096"},
		"a peer and runs":  {func(c *Config) { c.PeerAddr, c.FullRuns = "a:1", true }, "runs: whole runs are of one machine"},
		"a peer elsewhere": {func(c *Config) { c.PeerAddr, c.Host = "10.0.0.2:1", host },
			"host: 127.0.0.1 cannot be reached from 10.0.0.2"},
		"a peer of no port": {func(c *Config) { c.PeerAddr = "a" }, `peer: "a" has no port: write HOST:PORT`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{
				Host:     host,
				Carriers: []string{"quic"},
				Sizes:    []config.Bytes{128},
				Duration: time.Second,
				Rounds:   1,
				Memory:   4 << 20,
			}
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			tc.change(&cfg)
			_, err := Run(t.Context(), cfg)
			var usage *UsageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want a UsageError saying %q", err, tc.says)
			}
		})
	}
}

// TestFarRefuses: what cannot be is answered with a sentence, and the session goes on.
func TestFarRefuses(t *testing.T) {
	id := authority(t)("far")
	a, b := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), b, FarConfig{Identity: id, Host: host, Near: "near"}) }()
	hello := helloArgs{Protocol: protocol, Memory: minMemory, Name: "near"}
	for _, tc := range []struct {
		r    request
		says string // "": it is done
	}{
		{request{}, "has 0 fields"},
		{request{Mark: &noArgs{}}, "must send hello before"},
		{request{Hello: &helloArgs{Protocol: protocol + 1, Memory: minMemory, Name: "near"}}, "version 2"},
		{request{Hello: &helloArgs{Protocol: protocol, Memory: minMemory, Name: "other"}},
			`its certificate that it is "near"`},
		{request{Hello: &helloArgs{Protocol: protocol, Memory: 1, Name: "near"}}, "out of bounds"},
		{request{Hello: &helloArgs{Protocol: protocol, Memory: minMemory, Name: "near", Procs: 1 << 40}}, "out of bounds"},
		{request{Hello: &hello}, ""},
		{request{Hello: &hello}, "hello a second time"},
		{request{Grant: &grantArgs{Size: 1, Windows: 1}}, "there is no link"},
		{request{Stop: &stopArgs{}}, "there is no link"},
		{request{Check: &noArgs{}}, "there is no link"},
		{request{End: &endArgs{}}, "no reference"},
		{request{Open: &openArgs{Carrier: "pigeon"}}, "is not known here"},
		{request{Begin: &beginArgs{Reference: "pigeon"}}, "is not known here"},
		{request{Begin: &beginArgs{Reference: refUDP}}, ""},
		{request{Close: &noArgs{}}, ""},
		{request{Close: &noArgs{}}, ""},
	} {
		_, err := callFar(t.Context(), a, tc.r)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v, want %q", tc.r, err, tc.says)
		}
	}
	_ = a.Close()
	if err := patiently.Receive(t, served); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("the near end has gone, which is no error: %v", err)
	}
	nothingMapped(t)
}

// TestStrangerIsRefused: who has no certificate of the cluster does not get as far as a question; the next one does.
func TestStrangerIsRefused(t *testing.T) {
	issue := authority(t)
	near, far, stranger := issue("near"), issue("far"), authority(t)("near")
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	refused, served := make(chan error, 9), make(chan error, 1)
	go func() {
		conn, name, err := Accept(t.Context(), l, far, func(err error) { refused <- err })
		if err == nil {
			err = Serve(t.Context(), conn, FarConfig{Identity: far, Host: host, Near: name})
			_ = conn.Close()
		}
		served <- err
	}()
	conn, err := Dial(t.Context(), stranger, "far", l.Addr().String())
	if err == nil {
		_ = conn.Close()
		t.Error("a stranger believes the far end")
	}
	if err := patiently.Receive(t, refused); err == nil {
		t.Error("nobody was turned away")
	}
	if conn, err = Dial(t.Context(), near, "far", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if _, err := callFar(t.Context(), conn, request{Mark: &noArgs{}}); err == nil ||
		!strings.Contains(err.Error(), "hello") {
		t.Errorf("%v", err)
	}
	_ = conn.Close()
	if err := patiently.Receive(t, served); err != nil {
		t.Error(err)
	}
}

// TestCheckFindsOneByte: a window that holds anything but what was written last is found.
func TestCheckFindsOneByte(t *testing.T) {
	source := newSource(&Config{Memory: minMemory, Sizes: []config.Bytes{1000}})
	l := newLoad(1000, make([]shmem.Ref, 16), source, 5)
	mem := make([]byte, 16*1000)
	for range 100 {
		w, p := l.window(), l.piece()
		copy(mem[w*1000:], l.pieces[p])
		l.lastPiece[w] = p
		l.next++
	}
	sums := func() (out []byte) {
		for w := range 16 {
			sum := crc32.Checksum(mem[w*1000:(w+1)*1000], crc32.MakeTable(crc32.Castagnoli))
			out = binary.LittleEndian.AppendUint32(out, sum)
		}
		return out
	}
	if err := l.check(sums()); err != nil {
		t.Fatal(err)
	}
	mem[3456] ^= 1
	var account *accountError
	if err := l.check(sums()); !errors.As(err, &account) || !strings.Contains(err.Error(), "window 3 ") {
		t.Errorf("%v", err)
	}
	if l.check(nil) == nil {
		t.Error("no checksums are as good as right ones")
	}
}

// TestHandlersAllocateNothing: what is measured is the carrier, not this package.
func TestHandlersAllocateNothing(t *testing.T) {
	e := &end{wake: make(chan struct{}, 1), linkOver: make(chan struct{})}
	ps := make([]transport.Placement, 8)
	if n := testing.AllocsPerRun(100, func() {
		e.Placed(0, ps[0])
		e.PlacedMany(0, ps)
		e.windowBusy[7].Store(true)
		e.Completed(0, 7, nil)
		_ = e.await(context.Background(), func() bool { return !e.windowBusy[7].Load() })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMeasureOne: a sweep may name any raw measurement; one that cannot be taken is an error with the reason.
func TestMeasureOne(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, figure := range map[string]string{
		refCopy:      "goodput_gbps",
		refUDP:       "goodput_gbps",
		refSeal:      "near_cpu_s_per_gb",
		refTrip:      "trip_us.p99",
		"quic 64KiB": "write_us.p50",
	} {
		got, err := Measure(t.Context(), shortConfig(t), name)
		if err != nil || got[figure] <= 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, says := range map[string]string{
		refIPerf:    "iperf3 not installed",
		refMPITCP:   "mpicc, mpirun not installed",
		"pigeon":    "neither one of",
		"quic 1GiB": "is not between",
	} {
		if got, err := Measure(t.Context(), shortConfig(t), name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	nothingMapped(t)
}

// TestEveryCarrier: each places what is sent, and its accounts close.
func TestEveryCarrier(t *testing.T) {
	cfg := shortConfig(t)
	cfg.Carriers, cfg.Sizes, cfg.Spin = carrierNames(), []config.Bytes{100, 20000}, 50*time.Microsecond
	r, err := Run(t.Context(), cfg)
	if err != nil || len(r.Failed) > 0 || len(r.Carriers) != 2*len(cfg.Carriers) {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, c := range r.Carriers {
		if c.BytesSent == 0 || c.BytesSent != c.PlacedWrites || c.Encrypted == (c.Carrier == "local") {
			t.Errorf("%+v", c)
		}
	}
	nothingMapped(t)
}
