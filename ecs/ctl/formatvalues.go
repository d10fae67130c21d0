package ctl

import (
	"cmp"
	"fmt"
	"io"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// writeValues writes the last values of slow data.
func writeValues(w io.Writer, s *ecsv1.Snapshot) error {
	if len(s.GetSlowValues()) == 0 {
		_, err := fmt.Fprintln(w, "no slow data have come: send lines to the address of --slow-data, or give a note")
		return err
	}
	t := newTable(w)
	t.row("name", "value", "time", "by")
	for _, v := range s.GetSlowValues() {
		t.row(v.GetName(), v.GetValue(), v.GetTime().AsTime().Format("2006-01-02 15:04:05.000Z"), cmp.Or(v.GetUser(), "–"))
	}
	return t.end()
}
