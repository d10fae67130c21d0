package tagnet

import "testing"

func TestParseTrigger(t *testing.T) {
	for text, want := range map[string]Trigger{
		"":                   {},
		"hand":               {Kind: TriggerHand},
		"unix:/run/a/../t":   {TriggerUnix, "/run/t"},
		"udp:7000":           {TriggerUDP, "127.0.0.1:7000"},
		"udp:0.0.0.0:7000":   {TriggerUDP, "0.0.0.0:7000"},
		"udp:daq.site:65535": {TriggerUDP, "daq.site:65535"},
	} {
		if got, err := ParseTrigger(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	long := make([]byte, 200)
	for i := range long {
		long[i] = 'x'
	}
	for _, text := range []string{"Hand", "hand:1", "rate", "unix:", "unix:relative", "unix:/" + string(long), "udp:",
		"udp:65536", "udp:-1", "udp:010x", "udp:h:x", "tcp:7"} {
		if got, err := ParseTrigger(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}
