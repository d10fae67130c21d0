package selection_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

// rendered is an event in a format.
func rendered(t *testing.T, f selection.Format, e selection.Event) string {
	t.Helper()
	out, err := new(selection.Renderer).AppendEvent(nil, f, &e)
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
		rendered(t, selection.FormatJSON, e)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`event 9 of run 4: 3 bytes of 3 sources, MEP 2 by n1
  source 3: ODIN (16), version 0, 3 bytes
    00000000  61 62 63                                          |abc|
  source 7: FragmentMissing (92), version 0, 0 bytes
  source 256: Calo (77), version 1, 0 bytes
`, rendered(t, selection.FormatHex, e)); diff != "" {
		t.Error(diff)
	}
	r, err := event.ParseRecord([]byte(rendered(t, selection.FormatMDF, e)))
	must.OK(t, err)
	must.OK(t, r.Verify())
	if h := r.HeaderFields(); h.Run != 4 || h.Bunch != 9 || h.Orbit != 0 {
		t.Errorf("%+v", h)
	}
	var line map[string]any
	must.OK(t, json.Unmarshal([]byte(rendered(t, selection.FormatJSON, p.Event(0, false))), &line))
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
	if !bytes.Equal([]byte(rendered(t, selection.FormatMDF, e)), handMade(t, "mdf")) {
		t.Error("the record is not what was replayed")
	}
	sel := parse(t, selection.Spec{Sources: []string{"0"}, Data: true})
	r, err := event.ParseRecord([]byte(rendered(t, selection.FormatMDF, sel.TrimEvent(e))))
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

// inWords is an event as encoding/json writes it.
type inWords struct {
	Event   uint64            `json:"event"`
	Run     uint32            `json:"run"`
	MEP     uint64            `json:"mep"`
	Attempt uint32            `json:"attempt,omitempty"`
	Builder string            `json:"builder,omitempty"`
	Size    int               `json:"size"`
	Missing int               `json:"missing"`
	Sources []fragmentInWords `json:"sources"`
}

type fragmentInWords struct {
	Source  uint16        `json:"source"`
	Type    string        `json:"type"`
	TypeID  uint8         `json:"type_id"`
	Version uint8         `json:"version"`
	Size    int           `json:"size"`
	Missing bool          `json:"missing,omitempty"`
	Data    *string       `json:"data,omitempty"`
	Banks   []bankInWords `json:"banks,omitempty"`
}

type bankInWords struct {
	Type    string `json:"type"`
	TypeID  uint8  `json:"type_id"`
	Version uint8  `json:"version"`
	Source  int16  `json:"source"`
	Size    int    `json:"size"`
}

// TestJSONIsJSON compares lines with those of encoding/json, byte for byte.
func TestJSONIsJSON(t *testing.T) {
	replayed := handMade(t, "replay-0")
	rapid.Check(t, func(t *rapid.T) {
		e := selection.Event{
			Meta: selection.Meta{
				Run:     rapid.Uint32().Draw(t, "run"),
				MEP:     rapid.Uint64().Draw(t, "mep"),
				Attempt: rapid.Uint32Range(0, 3).Draw(t, "attempt"),
				Builder: rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{0,9}`), rapid.String()).Draw(t, "builder"),
			},
			Number: rapid.Uint64().Draw(t, "event"),
		}
		want := inWords{
			Event:   e.Number,
			Run:     e.Run,
			MEP:     e.MEP,
			Attempt: e.Attempt,
			Builder: e.Builder,
			Sources: []fragmentInWords{},
		}
		for range rapid.IntRange(0, 4).Draw(t, "fragments") {
			f := selection.Fragment{
				Source:  rapid.Uint16().Draw(t, "source"),
				Type:    event.BankType(rapid.Uint8().Draw(t, "type")),
				Version: rapid.Uint8().Draw(t, "version"),
				Data:    rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data"),
			}
			w := fragmentInWords{Source: f.Source, Version: f.Version}
			if rapid.Bool().Draw(t, "replayed") {
				f.Type, f.Data = event.FragmentContainer, replayed
				for c := event.NewBankCursor(replayed); c.Next(); {
					b := c.Bank()
					w.Banks = append(w.Banks,
						bankInWords{b.Type().String(), uint8(b.Type()), b.Version(), b.SourceID(), len(b.Data())})
				}
			} else if f.Type == event.FragmentContainer {
				f.Type = event.TestDet
			}
			f.Size = len(f.Data)
			w.Type, w.TypeID, w.Size, w.Missing = f.Type.String(), uint8(f.Type), f.Size, f.Type == event.FragmentMissing
			if w.Missing {
				want.Missing++
			}
			if rapid.Bool().Draw(t, "no data") && f.Type != event.FragmentContainer {
				f.Data = nil
			} else {
				digits := hex.EncodeToString(f.Data)
				w.Data = &digits
			}
			want.Size += f.Size
			want.Sources = append(want.Sources, w)
			e.Fragments = append(e.Fragments, f)
		}
		line, err := json.Marshal(want)
		must.OK(t, err)
		got, err := new(selection.Renderer).AppendEvent(nil, selection.FormatJSON, &e)
		must.OK(t, err)
		if diff := cmp.Diff(string(line)+"\n", string(got)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestJSONAllocatesNothing(t *testing.T) {
	p := parsed(t, selection.Meta{Run: 4, MEP: 2, Attempt: 1, Builder: "n-1"}, mepOf(t, 6, 3, 9, plain))
	e := p.Event(1, true)
	var r selection.Renderer
	line, err := r.AppendEvent(nil, selection.FormatJSON, &e)
	must.OK(t, err)
	if n := testing.AllocsPerRun(100, func() { line, _ = r.AppendEvent(line[:0], selection.FormatJSON, &e) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLargeFragmentsAreCut: of a large fragment a copy has the first kB, with the size of the whole; a record cannot be
// made of it.
func TestLargeFragmentsAreCut(t *testing.T) {
	large := bytes.Repeat([]byte{0xAB}, 3_000_000)
	p := parsed(t, selection.Meta{}, mepOf(t, 2, 1, 5, func(source, _ int) mfp.Fragment {
		return mfp.Fragment{Type: 51, Data: large[:[]int{len(large), 65_535}[source]]}
	}))
	e := p.Event(0, true)
	if f := e.Fragments; f[0].Size != len(large) || len(f[0].Data) != 1024 || len(f[1].Data) != 65_535 ||
		p.CopiedSize(0) != 1024+65_535 {
		t.Errorf("%d bytes of %d, and %d; %d in all", len(f[0].Data), f[0].Size, len(f[1].Data), p.CopiedSize(0))
	}
	var r selection.Renderer
	if _, err := r.AppendEvent(nil, selection.FormatMDF, &e); !errors.Is(err, event.ErrRange) {
		t.Error(err)
	}
	text, err := r.AppendEvent(nil, selection.FormatHex, &e)
	if err != nil || !bytes.Contains(text, []byte("3000000 bytes\n    the first 1024 bytes:\n")) {
		t.Errorf("%v: %.300s", err, text)
	}
	text, err = r.AppendEvent(nil, selection.FormatJSON, &e)
	if err != nil || !bytes.Contains(text, []byte(`"size":3000000,"data":"abab`)) || len(text) > 140_000 {
		t.Errorf("%v: %.300s", err, text)
	}
}
