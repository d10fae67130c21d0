package certs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	ca := mustCA(t)
	if err := ca.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := mustIssue(t, ca, "n0", RoleNode).Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := LoadCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := mustIssue(t, again, "control", RoleControl).Save(dir); err != nil {
		t.Fatal(err)
	}
	n0, err := Load(dir, "n0")
	if err != nil {
		t.Fatal(err)
	}
	control, err := Load(dir, "control")
	if err != nil {
		t.Fatal(err)
	}
	if control.Peer != (Peer{"control", RoleControl}) {
		t.Errorf("loaded as %v", control.Peer)
	}
	if s, c := shake(t, n0.Server(), control.Client("n0")); s.err != nil || c.err != nil {
		t.Errorf("loaded identities refuse each other: %v, %v", s.err, c.err)
	}
	checkModes(t, dir, 6)
}

// checkModes holds that only the owner can read, and that no temporary file stayed.
func checkModes(t *testing.T, dir string, want int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != want {
		t.Errorf("%d files, want %d: %v", len(entries), want, entries)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
}

func TestAuthorityAndGossipKeyAreNotOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	key := NewGossipKey()
	if err := SaveGossipKey(dir, key); err != nil {
		t.Fatal(err)
	}
	if err := SaveGossipKey(dir, NewGossipKey()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second gossip key: %v", err)
	}
	if got, err := LoadGossipKey(dir); err != nil || !bytes.Equal(got, key) {
		t.Errorf("gossip key %x, %v; want %x", got, err, key)
	}
	first := mustCA(t)
	if err := first.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := mustCA(t).Save(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second authority: %v", err)
	}
	if got, err := LoadCA(dir); err != nil || !got.cert.Equal(first.cert) {
		t.Errorf("the authority changed: %v", err)
	}
	if err := mustIssue(t, mustCA(t), "n0", RoleNode).Save(dir); err == nil {
		t.Error("a node of another authority was saved beside this one")
	}
	checkModes(t, dir, 3)
}

func TestSaveNodeAgainReplacesIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	ca := mustCA(t)
	for range 2 {
		if err := mustIssue(t, ca, "n0", RoleNode).Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(dir, "n0"); err != nil {
		t.Error(err)
	}
	checkModes(t, dir, 3)
}

func TestLoadRefuses(t *testing.T) {
	ours, theirs := mustCA(t), mustCA(t)
	fill := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "keys")
		for _, name := range []string{"n0", "n1"} {
			if err := mustIssue(t, ours, name, RoleNode).Save(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := SaveGossipKey(dir, NewGossipKey()); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	rename := func(t *testing.T, dir, from, to string) {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"no certificate", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "n0.crt")) }, "n0.crt"},
		{"no key", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "n0.key")) }, "n0.key"},
		{"no authority", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, caCert)) }, caCert},
		{"wrong key", func(t *testing.T, dir string) { rename(t, dir, "n1.key", "n0.key") }, "is not the key of"},
		{"wrong name", func(t *testing.T, dir string) {
			rename(t, dir, "n1.key", "n0.key")
			rename(t, dir, "n1.crt", "n0.crt")
		}, "is the certificate of n1"},
		{"other authority", func(t *testing.T, dir string) {
			other := t.TempDir()
			if err := mustIssue(t, theirs, "n0", RoleNode).Save(other); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(other, caCert), filepath.Join(dir, caCert)); err != nil {
				t.Fatal(err)
			}
		}, "was not issued by"},
		{"no PEM", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "n0.key"), []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "PEM block"},
		{"certificate for a node's", func(t *testing.T, dir string) { rename(t, dir, caCert, "n0.crt") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fill(t)
			c.spoil(t, dir)
			if _, err := Load(dir, "n0"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one saying %q", err, c.want)
			}
		})
	}
	dir := fill(t)
	if _, err := Load(dir, "../n0"); err == nil {
		t.Error("a path was taken for a name")
	}
	if _, err := LoadCA(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("authority without a key: %v", err)
	}
	for _, text := range []string{"", "00", strings.Repeat("g", 64)} {
		if err := os.WriteFile(filepath.Join(dir, GossipFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadGossipKey(dir); err == nil {
			t.Errorf("gossip key %q accepted", text)
		}
	}
	if err := SaveGossipKey(t.TempDir(), []byte("short")); err == nil {
		t.Error("a short gossip key was saved")
	}
}
