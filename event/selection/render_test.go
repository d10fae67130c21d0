package selection_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

// rendered is an event in a format.
func rendered(t *testing.T, f selection.Format, e selection.Event) string {
	t.Helper()
	out, err := new(selection.Renderer).Append(nil, f, &e)
	must.OK(t, err)
	return string(out)
}

func TestRendersTheHandMadeMEP(t *testing.T) {
	p := parsed(t, selection.Meta{Run: 4, MEP: 2, Attempt: 1, Builder: "n1"}, handMade(t, "mep"))
	e := p.Event(0, true)
	if diff := cmp.Diff(`{"event":9,"run":4,"mep":2,"attempt":1,"builder":"n1","size":3,"missing":1,"sources":[`+
		`{"source":3,"type":"ODIN","type_id":16,"version":0,"size":3,"data":"616263"},`+
		`{"source":7,"type":"FragmentMissing","type_id":92,"version":0,"size":0,"missing":true,"data":""},`+
		`{"source":256,"type":"Calo","type_id":77,"version":1,"size":0,"data":""}]}`+"\n",
		rendered(t, selection.JSON, e)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`event 9 of run 4: 3 bytes of 3 sources, MEP 2 by n1
  source 3: ODIN (16), version 0, 3 bytes
    00000000  61 62 63                                          |abc|
  source 7: FragmentMissing (92), version 0, 0 bytes
  source 256: Calo (77), version 1, 0 bytes
`, rendered(t, selection.Hex, e)); diff != "" {
		t.Error(diff)
	}
	r, err := event.ParseRecord([]byte(rendered(t, selection.MDF, e)))
	must.OK(t, err)
	must.OK(t, r.Verify())
	if h := r.Decoded(); h.Run != 4 || h.Bunch != 9 || h.Orbit != 0 {
		t.Errorf("%+v", h)
	}
	var line map[string]any
	must.OK(t, json.Unmarshal([]byte(rendered(t, selection.JSON, p.Event(0, false))), &line))
	if _, has := line["sources"].([]any)[0].(map[string]any)["data"]; has {
		t.Error("data that were not asked for")
	}
}

// TestReplayedRecordsComeBack takes the hand-made record over two streams, whole and in part.
func TestReplayedRecordsComeBack(t *testing.T) {
	streams := [][]byte{handMade(t, "replay-0"), handMade(t, "replay-1")}
	p := parsed(t, selection.Meta{Run: 4}, mepOf(t, 2, 1, 5, func(s, _ int) mfp.Fragment {
		return mfp.Fragment{Type: event.FragmentContainer, Data: streams[s]}
	}))
	e := p.Event(0, true)
	if !bytes.Equal([]byte(rendered(t, selection.MDF, e)), handMade(t, "mdf")) {
		t.Error("the record is not what was replayed")
	}
	sel := parse(t, selection.Spec{Sources: []string{"0"}, Data: true})
	r, err := event.ParseRecord([]byte(rendered(t, selection.MDF, sel.Cut(e))))
	must.OK(t, err)
	must.OK(t, r.Verify())
	banks, err := r.Banks()
	must.OK(t, err)
	n := 0
	for ; banks.Next(); n++ {
		if banks.Bank().Type() == event.RecordBank {
			t.Error("the record bank is in the record")
		}
	}
	if n != 2 || r.Run() != 4 {
		t.Errorf("%d banks of stream 0, run %d", n, r.Run())
	}
}

func TestTooLargeForARecord(t *testing.T) {
	p := parsed(t, selection.Meta{}, mepOf(t, 1, 1, 0, func(int, int) mfp.Fragment {
		return mfp.Fragment{Data: make([]byte, event.MaxFragment)}
	}))
	e := p.Event(0, true)
	if out, err := new(selection.Renderer).Append([]byte("x"), selection.MDF, &e); !errors.Is(err, event.ErrRange) ||
		string(out) != "x" {
		t.Errorf("%v, %d bytes", err, len(out))
	}
}
