package node

import (
	"path/filepath"
	"strconv"

	"ringlet/builderunit/recording"
	"ringlet/internal/config"
)

// Parts says whether each builder unit writes a part that must be merged into the run's output.
func Parts(cfg config.Config) bool { return cfg.SingleFile() && cfg.BUs > 1 }

// OutputName is where a builder unit's output goes: the directory of runs, or a shared-memory buffer.
func OutputName(cfg config.Config, bu int) string {
	switch {
	case cfg.Format == config.FormatBuffer:
		return "ringlet-" + cfg.Output + "-" + strconv.Itoa(bu) // a prefix by which shmem.Sweep finds those of the dead
	case cfg.SingleFile():
		return cfg.Output + recording.SegmentsSuffix
	}
	return filepath.Clean(cfg.Output)
}
