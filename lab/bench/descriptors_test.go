package bench

import (
	"bytes"
	"errors"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
	"ringlet/testkit/patiently"
)

// descriptorsTestConfig measures with tiny numbers.
func descriptorsTestConfig(t *testing.T, carrier string) *DescriptorsConfig {
	t.Helper()
	return &DescriptorsConfig{
		NodesConfig: nodesTestConfig(t, carrier),
		Sizes:       []config.Bytes{64, 2048},
		PerTrigger:  []string{"1", "5", "endless"},
		Descriptors: 11,
		Trigger:     bySoftware,
		Duration:    30 * time.Millisecond,
	}
}

// TestDescriptors: in each mode all transfers arrive whole, and a trigger has as many as it asks for.
func TestDescriptors(t *testing.T) {
	for _, carrier := range carrierNames() {
		r, err := MeasureNodes(t.Context(), descriptorsTestConfig(t, carrier))
		if err != nil || r.Failure() != nil || len(r.Rows) != 6 {
			t.Fatalf("%s: %v: %+v", carrier, err, r)
		}
		for _, row := range r.Rows {
			per := map[string]uint64{"1": 1, "5": 5}[row.PerTrigger]
			if row.Transfers == 0 || row.Transfers > row.Triggers*per && per > 0 || per == 0 && row.Triggers != 1 {
				t.Errorf("%s: %+v", carrier, row)
			}
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "2.56") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestDescriptorsByRate: there are no more triggers than the rate gives.
func TestDescriptorsByRate(t *testing.T) {
	cfg := descriptorsTestConfig(t, "local")
	cfg.Trigger, cfg.Rate, cfg.PerTrigger = byRate, 500, []string{"2"}
	r, err := MeasureNodes(t.Context(), cfg)
	if err != nil || r.Failure() != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, row := range r.Rows {
		if most := uint64(row.DurationS*cfg.Rate) + 2; row.Triggers == 0 || row.Triggers > most {
			t.Errorf("%d triggers, %d at most", row.Triggers, most)
		}
	}
}

// TestDescriptorsByLine: each datagram is a trigger, and none is lost; a path that is taken is refused.
func TestDescriptorsByLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line")
	cfg := descriptorsTestConfig(t, "local")
	cfg.Trigger, cfg.PerTrigger, cfg.Sizes, cfg.Duration = byLine+path, []string{"3"}, cfg.Sizes[:1], time.Second
	sent := make(chan error, 1)
	go func() {
		var conn net.Conn
		var err error
		for until := time.Now().Add(patiently.LongTimeout); time.Now().Before(until); time.Sleep(time.Millisecond) {
			if conn, err = net.Dial("unixgram", path); err == nil {
				break
			}
		}
		for i := 0; err == nil && i < 20; i++ {
			_, err = conn.Write([]byte{1})
		}
		if conn != nil {
			err = errors.Join(err, conn.Close())
		}
		sent <- err
	}()
	r, err := MeasureNodes(t.Context(), cfg)
	if err := errors.Join(err, patiently.Receive(t, sent)); err != nil || r.Failure() != nil || r.Rows[0].Triggers != 20 ||
		r.Rows[0].Transfers != 60 {
		t.Fatalf("%v: %+v", err, r)
	}
	cfg.Trigger = byLine + t.TempDir()
	if _, err := MeasureNodes(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no file yet") {
		t.Error(err)
	}
}

// TestTriggersLeft: what is on the line at the end is counted, wherever it is, and nothing waits for more.
func TestTriggersLeft(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7} {
		path := filepath.Join(t.TempDir(), "line")
		l, err := openLine(path)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("unixgram", path)
		for i := 0; err == nil && i < n; i++ {
			_, err = conn.Write([]byte{1}[:i%2]) // an empty datagram is a trigger, too
		}
		if err = errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
		if remaining, err := l.close(); err != nil || remaining != uint64(n) {
			t.Errorf("%d of %d are left: %v", remaining, n, err)
		}
	}
	cfg := descriptorsTestConfig(t, "local")
	r := &descriptorsReport{nodesReport: cfg.report(), TriggersUntaken: 3}
	var text bytes.Buffer
	if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "3 triggers were still in the socket") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestDescriptorsRefused: settings that cannot be are refused before anything starts.
func TestDescriptorsRefused(t *testing.T) {
	for setting, change := range map[string]func(*DescriptorsConfig){
		"carrier":     func(c *DescriptorsConfig) { c.Carrier = "pigeon" },
		"sizes":       func(c *DescriptorsConfig) { c.Sizes = nil },
		"per-trigger": func(c *DescriptorsConfig) { c.PerTrigger = []string{"0"} },
		"descriptors": func(c *DescriptorsConfig) { c.Descriptors = 65 },
		"trigger":     func(c *DescriptorsConfig) { c.Trigger = "unix:" },
		"rate":        func(c *DescriptorsConfig) { c.Trigger, c.Rate = byRate, math.NaN() },
	} {
		cfg := descriptorsTestConfig(t, "quic")
		change(cfg)
		_, err := MeasureNodes(t.Context(), cfg)
		var refused *UsageError
		if !errors.As(err, &refused) || refused.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
