package source

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/event/placing"
)

// TestBeginAt holds that a source which begins at a MEP gives what it gives anyway from there on.
func TestBeginAt(t *testing.T) {
	c := GeneratorConfig{
		RU:           1,
		Division:     placing.NewDivision(2, 1),
		Packing:      3,
		FragmentSize: 40,
		Events:       35,
		CRC:          true,
	}
	made := func() (Source, error) { return NewGenerator(c) }
	path, _ := writeMDF(t, [][]byte{generated(t, 4, 5, 20, "mep")})
	for name, open := range map[string]func() (Source, error){
		"generated": made,
		"replayed, again and again": func() (Source, error) {
			return openRecorded(t.Context(), ReplayConfig{
				Path:    path,
				RUs:     1,
				Packing: 3,
				Loop:    true,
				Events:  64,
			})
		},
		"at a rate": func() (Source, error) {
			g, err := made()
			return PaceSource(g, 1e9, 3), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			complete, err := open()
			noError(t, err)
			defer complete.Close()
			later, err := open()
			noError(t, err)
			defer later.Close()
			const mep = 7
			noError(t, BeginAtMEP(t.Context(), later, mep))
			var want, got Block
			a, b := make([]byte, complete.MaxBlock()), make([]byte, later.MaxBlock())
			for n := 0; ; n++ {
				err := complete.Next(t.Context(), a, &want)
				if n < mep {
					noError(t, err)
					continue
				}
				other := later.Next(t.Context(), b, &got)
				if !errors.Is(other, err) {
					t.Fatalf("MEP %d: %v, and %v of the one that began later", n, err, other)
				}
				if err != nil {
					break
				}
				if d := cmp.Diff(want, got); d != "" || !bytes.Equal(a[:want.Size], b[:got.Size]) {
					t.Fatalf("MEP %d differs: %s", n, d)
				}
			}
		})
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
