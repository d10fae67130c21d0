package mem

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/node/certs"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// served is an owner of a group, until the test ends or it is told to end.
func served(t *testing.T, dir string) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	o := Owner{Group: dir, Name: "words", Size: 4096, Carrier: "quic", Host: "127.0.0.1"}
	go func() { ended <- Serve(ctx, o, io.Discard) }()
	over := false
	end = func() {
		stop()
		if !over {
			over = true
			must.OK(t, patiently.Receive(t, ended))
		}
	}
	t.Cleanup(end)
	must.OK(t, awaitGroup(ctx, dir, ended))
	return end
}

// copied is what a guest on another host has of a group.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must.OK(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// uses tells whether a guest with a directory can write.
func uses(t *testing.T, dir string) error {
	t.Helper()
	g, err := Enter(t.Context(), dir, io.Discard)
	if err != nil {
		return err
	}
	return errors.Join(g.Put(t.Context(), "words", 0, []byte("hello"), false), g.Close())
}

// TestACopyHasNoKeyOfTheOwner: nobody who has a copy of a group can be its owner, and each owner makes all anew.
func TestACopyHasNoKeyOfTheOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "g")
	end := served(t, dir)
	guest := copied(t, dir)
	for _, file := range []string{"owner.key", "owner.crt", "ca.key"} {
		if _, err := os.Lstat(filepath.Join(guest, file)); err == nil {
			t.Errorf("a guest's copy has %s", file)
		}
	}
	if why := Warning(guest); why != "" {
		t.Error(why)
	}
	must.OK(t, uses(t, guest))
	was, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	must.OK(t, err)
	end()
	served(t, dir)
	now, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	must.OK(t, err)
	if bytes.Equal(was, now) {
		t.Error("a second owner has the authority of the first")
	}
	must.OK(t, uses(t, copied(t, dir)))
}

// TestAGroupOfBefore has the owner's key in its directory: it goes on, with a warning, and without the file all is new.
func TestAGroupOfBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "g")
	ca, err := certs.NewCA(0)
	must.OK(t, err)
	for rank := range maxGuests + 1 {
		id, err := ca.Issue(rankName(rank), nil, certs.RoleNode, 0)
		must.OK(t, err)
		must.OK(t, id.Save(dir))
	}
	end := served(t, dir)
	guest := copied(t, dir)
	must.OK(t, uses(t, guest))
	for _, d := range []string{dir, guest} {
		if why := Warning(d); !strings.HasPrefix(why, filepath.Join(d, "owner.key")+" is the private key of the owner") {
			t.Errorf("%s: %q", d, why)
		}
	}
	end()
	must.OK(t, os.Remove(filepath.Join(dir, "owner.key")))
	served(t, dir)
	fresh := copied(t, dir)
	must.OK(t, uses(t, fresh))
	if why := Warning(fresh); why != "" {
		t.Error(why)
	}
	must.OK(t, os.CopyFS(filepath.Join(guest, "now"), os.DirFS(dir)))
	must.OK(t, os.Rename(filepath.Join(guest, "now", groupFile), filepath.Join(guest, groupFile)))
	err = uses(t, guest) // which has keys of before, and knows where the owner is
	if err == nil || !strings.HasSuffix(err.Error(), "copy its directory again") {
		t.Errorf("a guest with keys of before: %v", err)
	}
}
