package nodes

import (
	"testing"

	"ringlet/node/config"
)

func TestFitSlots(t *testing.T) {
	for name, c := range map[string]struct {
		slot config.Bytes
		need int
		want config.Bytes
		err  string
	}{
		"sized for the data": {0, 1000, 1000, ""},
		"large enough":       {2000, 1000, 2000, ""},
		"too small": {500, 1000, 500,
			"the largest MEP of x.mdf needs 1000 bytes, but slot-size is 500: raise slot-size or lower packing"},
		"huge, unasked": {0, 4 * maxDefaultSlot, 0,
			"with packing 4000 the largest MEP of x.mdf needs 1073741824 bytes: lower packing to 1000 or less, or set " +
				"slot-size if that is meant"},
		"huge, as asked": {4 * maxDefaultSlot, 4 * maxDefaultSlot, 4 * maxDefaultSlot, ""},
	} {
		var cfg config.Completed
		cfg.Input, cfg.Packing, cfg.SlotSize = "x.mdf", 4000, c.slot
		got := ""
		if err := fitSlots(&cfg, c.need); err != nil {
			got = err.Error()
		}
		if got != c.err || cfg.SlotSize != c.want {
			t.Errorf("%s: slots of %d, %q", name, cfg.SlotSize, got)
		}
	}
}
