package certs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRevokedAtTheNextHandshake: a number that comes into the file is refused from then on, by who listens and by
// who dials; one that leaves it is not; and a file that cannot be read changes nothing.
func TestRevokedAtTheNextHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := saved(t, mustCA(t), time.Hour, "n0", "n1")
		n0, n1 := mustLoad(t, dir, "n0"), mustLoad(t, dir, "n1")
		server, client := n1.ServerCredentials(slog.Default()), n0.ClientCredentials("n1", slog.Default())
		file := filepath.Join(dir, revokedFile)
		for _, k := range []struct{ text, refuses string }{
			{"# nobody\n\n", ""},
			{fmt.Sprintf("serial=%X # lost\n", n0.current.Load().pair.Leaf.SerialNumber), "n0"},
			{"this is no number\n", "n0"},
			{"", ""},
			{fmt.Sprintf("%x", n1.current.Load().pair.Leaf.SerialNumber), "n1"},
		} {
			if err := os.WriteFile(file, []byte(k.text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * reloadInterval)
			atServer, atClient, err := handshake(server, client)
			var refused *RefusedError
			want := "the certificate of " + k.refuses + " was revoked"
			if (err == nil) != (k.refuses == "") ||
				err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), want)) {
				t.Errorf("with %q: %v", k.text, err)
			}
			for _, c := range []interface{ Close() error }{atServer, atClient} {
				if err == nil {
					_ = c.Close()
				}
			}
		}
	})
}

func TestARevokedFileThatIsNone(t *testing.T) {
	dir := saved(t, mustCA(t), time.Hour, "n0")
	for text, bad := range map[string]bool{"": false, "0a:0B\n": false, "# x\nserial=1F": false, "0": true, "-1": true,
		"x": true, "1\nn0\n": true} {
		if err := os.WriteFile(filepath.Join(dir, revokedFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, "n0"); (err != nil) != bad {
			t.Errorf("%q: %v", text, err)
		}
	}
}
