package ctl

import "testing"

func TestUnitsFit(t *testing.T) {
	for hz, want := range map[float64]string{
		10:     "10.0 Hz",
		1234.5: "1.234 kHz",
		145e3:  "0.145 MHz",
		2.1e6:  "2.100 MHz",
	} {
		if got := FormatFrequency(hz); got != want {
			t.Errorf("%v Hz is %q, want %q", hz, got, want)
		}
	}
	for gbps, want := range map[float64]string{
		0:      "0.000 Gbit/s",
		3.9:    "3.900 Gbit/s",
		0.0015: "1.500 Mbit/s",
		2e-6:   "2.000 kbit/s",
	} {
		if got := FormatThroughput(gbps); got != want {
			t.Errorf("%v Gbit/s is %q, want %q", gbps, got, want)
		}
	}
}
