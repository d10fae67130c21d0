package config

import (
	"strings"
	"testing"
)

func TestDamageThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ transport, damage, why string }{
		{"local", "body=0.1", "neither seal nor datagrams"},
		{"stream", "header=0.1", "opened by a library"},
		{"quic-go", "epoch=0.1,body=0.1", "opened by a library"},
		{"quic", "bodies=0.1", `debug.damage: "bodies" is no kind of damage`},
		{"quic", "header=0.1,body=0.1,epoch=0.1", ""},
		{"stream", "epoch=0.1,table=0.1", ""},
		{"local", "table=0.1", "neither seal nor datagrams"},
		{"auto", "body=0.1", ""},
	} {
		c := Default()
		c.Transport, c.Debug.Damage = tt.transport, tt.damage
		err := c.Complete()
		if (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s, %s: %v", tt.transport, tt.damage, err)
		}
	}
}
