package ctl

import "fmt"

// FormatFrequency formats a rate given in Hz, with a fitting unit.
func FormatFrequency(hz float64) string {
	switch {
	case hz >= 1e5:
		return fmt.Sprintf("%.3f MHz", hz/1e6)
	case hz >= 1e3:
		return fmt.Sprintf("%.3f kHz", hz/1e3)
	}
	return fmt.Sprintf("%.1f Hz", hz)
}

// FormatThroughput formats a data rate given in Gbit/s, with a fitting unit.
func FormatThroughput(gbps float64) string {
	switch {
	case gbps >= 0.01 || gbps == 0:
		return fmt.Sprintf("%.3f Gbit/s", gbps)
	case gbps >= 1e-5:
		return fmt.Sprintf("%.3f Mbit/s", gbps*1e3)
	}
	return fmt.Sprintf("%.3f kbit/s", gbps*1e6)
}
