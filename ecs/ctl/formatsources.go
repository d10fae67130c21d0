package ctl

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// writeSources writes the figures of each live source.
func writeSources(w io.Writer, s *ecsv1.Snapshot) error {
	if len(s.GetSources()) == 0 {
		_, err := fmt.Fprintln(w, "no live sources: the data are generated or replayed, or no configuration is loaded")
		return err
	}
	t := newTable(w)
	t.row("source", "input", "node", "rate", "data", "size", "fragments", "missing", "thrown",
		"refused", "lost", "dropped", "last event", "newest", "readiness", "front-end")
	for _, x := range s.GetSources() {
		last, age := "–", "–"
		if x.GetFragments() > 0 {
			last, age = fmt.Sprint(x.GetLastEvent()), formatAge(x.GetAgeUs())
		}
		name := cmp.Or(x.GetNode(), "–")
		if x.GetSilent() {
			name += ", silent"
		}
		t.row(fmt.Sprint(x.GetSource()), x.GetName(), name, FormatFrequency(x.GetFragmentsPerS()),
			formatBitRate(x.GetBytesPerS()),
			fmt.Sprintf("%.0f B", x.GetMeanSize()), fmt.Sprint(x.GetFragments()), formatMissing(x), fmt.Sprint(x.GetThrown()),
			fmt.Sprint(x.GetRefused()), fmt.Sprint(x.GetLost()), fmt.Sprint(x.GetDropped()), last, age,
			cmp.Or(x.GetReadiness(), "–"), cmp.Or(x.GetFrontend(), "–"))
	}
	if err := t.end(); err != nil {
		return err
	}
	for _, x := range s.GetSources() {
		err := errors.Join(writeWhy(w, x, x.GetRefused(), "refused", x.GetWhyRefused()),
			writeWhy(w, x, x.GetThrown(), "thrown away", x.GetWhyThrown()))
		if err != nil {
			return err
		}
	}
	return nil
}

// writeWhy writes how many fragments of a source were refused or thrown away, and the latest reason.
func writeWhy(w io.Writer, x *ecsv1.SourceFigures, n uint64, what, why string) error {
	if n == 0 || why == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s: %d %s, the last one because: %s\n", x.GetName(), n, what, why)
	return err
}

// formatMissing formats the number of missing fragments of a source, and their share.
func formatMissing(x *ecsv1.SourceFigures) string {
	n, of := x.GetMissing(), x.GetMissing()+x.GetUsed()
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2g %%)", n, 100*float64(n)/float64(of))
}

// formatAge formats an age given in µs.
func formatAge(us uint64) string {
	d := time.Duration(us) * time.Microsecond
	if d < time.Second {
		return d.Round(time.Millisecond).String() + " ago"
	}
	return d.Round(100*time.Millisecond).String() + " ago"
}

// formatBitRate formats a rate in bytes per second as bits.
func formatBitRate(bytesPerS float64) string {
	bits := bytesPerS * 8
	for _, unit := range []string{"bit/s", "kbit/s", "Mbit/s"} {
		if bits < 1000 {
			return fmt.Sprintf("%.3g %s", bits, unit)
		}
		bits /= 1000
	}
	return fmt.Sprintf("%.3g Gbit/s", bits)
}
