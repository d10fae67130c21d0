package node

import (
	"path/filepath"
	"testing"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/source"
	"ringlet/source/live"
	"ringlet/testkit/must"
)

// TestBackInAPausedRun: the front-ends of a readout unit that comes back to a paused run do not begin.
func TestBackInAPausedRun(t *testing.T) {
	cfg := config.Default()
	cfg.Input = "unix:" + filepath.Join(t.TempDir(), "feed")
	must.OK(t, cfg.Complete())
	for paused, want := range map[bool]live.Command{false: live.Begin, true: live.Pause} {
		settings, err := cfg.SourceSettings(0)
		must.OK(t, err)
		kind, _ := cfg.Source()
		src, err := kind.Open(t.Context(), settings)
		must.OK(t, err)
		c := &readout{base: &base{}}
		c.live.Store(src.(*source.Live))
		c.beginUnawaited(&runStart{CommandRequest: &nodev1.CommandRequest{Back: true, Paused: paused}})
		if got := c.live.Load().Lives()[0].Wanted; got != want {
			t.Errorf("paused %v: the source is wanted at %v, not at %v", paused, got, want)
		}
		must.OK(t, src.Close())
	}
}
