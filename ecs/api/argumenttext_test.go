package api

import (
	"fmt"
	"strings"
	"testing"
)

// The audit log says what was asked with: nothing else pushes out what reaches outside, and no secret is in it.
func TestSpoken(t *testing.T) {
	padded := strings.Repeat("# nothing\n", 10000) + "nodes: 2\n\"input\": \"exec:id, a\"\n"
	for i := range 1000 {
		padded += fmt.Sprintf("a%d: b\n", i)
	}
	for _, c := range []struct {
		args map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"remark": "shift 3"}, `remark="shift 3"`},
		{map[string]string{"configuration": "nodes: 2\ninput: exec:id\n", "settings": "output=/a/\n"},
			`input="exec:id" output="/a/" nodes="2"`},
		{map[string]string{"settings": "input=exec:read password=abc token xyz --secret='q'"},
			`input="exec:read password=*** token *** --secret=***'"`},
		{map[string]string{"settings": "input=tcp::1?secret=/etc/s"}, `input="tcp::1?secret=/etc/s"`},
		{map[string]string{"configuration": "- no\n- map"}, `configuration="- no\n- map"`},
	} {
		if got := formatArguments(c.args); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
	got := formatArguments(map[string]string{"configuration": padded})
	if !strings.HasPrefix(got, `input="exec:id, a"`) || len(got) > maxArguments+20 || !strings.Contains(got, " more") {
		t.Errorf("%d bytes: %.100s … %s", len(got), got, got[len(got)-20:])
	}
	long := formatArguments(map[string]string{"settings": "input=exec:" + strings.Repeat("a", 10000)})
	if len(long) > maxArguments || !strings.Contains(long, "10005 bytes, SHA-256 ") {
		t.Errorf("%d bytes: %.100s", len(long), long)
	}
}
