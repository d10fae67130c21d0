package mem

import (
	"strings"
	"testing"

	"ringlet/memory"
	"ringlet/testkit/must"
)

func TestPages(t *testing.T) {
	for text, want := range map[string]memory.Pages{
		"0+16:rwln": {Count: 16, Peer: memory.Everybody, Allow: memory.AllowAll},
		"3+1:r":     {First: 3, Count: 1, Peer: memory.Everybody, Allow: memory.AllowRead},
		"1+2:rw:dmove,ordered": {First: 1, Count: 2, Peer: memory.Everybody, Allow: memory.AllowRead | memory.AllowWrite,
			Attributes: memory.Dmove | memory.Ordered},
		"1+2::nwrite,combining":  {First: 1, Count: 2, Peer: memory.Everybody, Attributes: memory.Combining},
		"0+1:rr:ordered,ordered": {Count: 1, Peer: memory.Everybody, Allow: memory.AllowRead, Attributes: memory.Ordered},
	} {
		var p Pages
		must.OK(t, p.UnmarshalText([]byte(text)))
		if p.Pages != want {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
	for text, why := range map[string]string{
		"":              "two or three parts",
		"0+1":           "two or three parts",
		"0+1:r:dmove:x": "two or three parts",
		"-1+1:r":        "first page",
		"x+1:r":         "first page",
		"0+0:r":         "above 0",
		"0:r":           "above 0",
		"0+1:x":         "allowed are",
		"0+1:r:fast":    "attributes are",
		"0+1:r:":        "attributes are",
	} {
		var p Pages
		if err := p.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzPages: what is read names pages that there may be, and says what it allows.
func FuzzPages(f *testing.F) {
	f.Add("0+16:rwln")
	f.Add("16+4:rw:ordered,combining")
	f.Fuzz(func(t *testing.T, text string) {
		var p Pages
		if p.UnmarshalText([]byte(text)) == nil && (p.First < 0 || p.Count < 1 || p.Allow&^memory.AllowAll != 0) {
			t.Errorf("%q is read as %+v", text, p)
		}
	})
}

// FuzzGroup: a group.json of others ends in an error or in an address.
func FuzzGroup(f *testing.F) {
	f.Add([]byte(`{"view": 1, "carrier": "quic", "address": "127.0.0.1:1"}`))
	f.Add([]byte(`{"view": -1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if g, err := parseGroup(text); err == nil && g.Address == "" {
			t.Errorf("%q is read as %+v", text, g)
		}
	})
}
