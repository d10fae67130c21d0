package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"ringlet/testkit/must"
)

// Events are drawn in the detector of the run's filter, and in the default one where the filter has no file. A file
// that is gone is told.
func TestDrawsTheDetectorOfTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	must.OK(t, os.WriteFile(path, []byte("detector: {stations: [0, 50, 100, 150, 200]}\n"), 0o600))
	text := "filter: vertex:" + path + "\n"
	d := &eventTruths{currentRun: func() (uint32, string) { return 1, text }}
	g, err := d.geometry()
	must.OK(t, err)
	if g == nil || g.Boards() != 20 {
		t.Errorf("%v", g)
	}
	text = "filter: vertex\n"
	if g, err = d.geometry(); g != nil || err != nil {
		t.Error(g, err)
	}
	text = "filter: vertex:" + path + ".gone\n"
	if _, err = d.geometry(); err == nil {
		t.Error("a file that is not there is known")
	}
}

// What happened at an event is told of the run at hand, where a simulated detector makes each of its events once.
func TestTruthOfAnEvent(t *testing.T) {
	text := "fragment-model: velo\nseed: 7\n"
	d := &eventTruths{currentRun: func() (uint32, string) { return 4, text }}
	first, is := d.truthOf(4, 3)
	if again, _ := d.truthOf(4, 3); !is || len(first.Vertices) == 0 || !reflect.DeepEqual(first, again) {
		t.Errorf("%v: %+v, and again %+v", is, first, again)
	}
	if other, _ := d.truthOf(4, 5); reflect.DeepEqual(first, other) {
		t.Error("the same happened at two events")
	}
	for name, run := range map[string]uint32{"another run": 3, "no run": 0} {
		if _, is := d.truthOf(run, 3); is {
			t.Errorf("it is known of %s", name)
		}
	}
	for _, text = range []string{"fragment-model: velo\nprepared: 8\n", "packing: 7\n", "nonsense: 1\n"} {
		if _, is := d.truthOf(4, 3); is {
			t.Errorf("it is known with %q", text)
		}
	}
}
