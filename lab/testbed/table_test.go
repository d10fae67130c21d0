package testbed

import (
	"strings"
	"testing"
	"time"
)

func TestTheTableSaysWhatBecameOfDisturbances(t *testing.T) {
	d := func(host string) Disturbance { return Disturbance{At: time.Second, Action: actCut, Host: host} }
	r := &Report{
		Hosts:        2,
		RateBps:      200e6,
		QueueBytes:   32 << 10,
		MTU:          1500,
		Packets:      3,
		Dropped:      1,
		DroppedShare: 0.25,
		Ports:        []Port{{Host: "n0", RateBps: 200e6, ToHost: Count{Packets: 1, Bytes: 2, Dropped: 3}}},
		Disturbances: []DisturbanceResult{
			{Disturbance: d("n0"), AtS: 1.5, TookEffect: true}, {Disturbance: d("n1")},
			{Disturbance: d("n2"), Error: "no such device"},
		},
	}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"test bed   2 hosts, ports of 200Mbit, queues of 32KiB", "switch     3 packets to hosts, 1 dropped (25.000 %)",
		"1s:cut:n0  at 1.500 s", "1s:cut:n1  not reached", "1s:cut:n2  no such device", "n0    200Mbit  1 ",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("it does not say %q:\n%s", line, &b)
		}
	}
}
