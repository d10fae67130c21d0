package certs

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestBundle(t *testing.T) {
	ca, err := NewCA(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id, err := ca.Issue("n0", []string{"127.0.0.1"}, RoleNode, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	gossip := NewGossipKey()
	var b bytes.Buffer
	if err := id.WriteBundle(&b, gossip); err != nil {
		t.Fatal(err)
	}
	bundle := bytes.Clone(b.Bytes())
	b.WriteString("what follows")
	got, key, err := ReadBundle(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got.Peer != id.Peer || !got.NotAfter().Equal(id.NotAfter()) || !bytes.Equal(key, gossip) {
		t.Errorf("came back as %+v with gossip key %x", got.Peer, key)
	}
	if rest, _ := io.ReadAll(&b); string(rest) != "what follows" {
		t.Errorf("reading took more than the bundle: %q is left", rest)
	}

	other := bytes.Replace(bytes.Clone(bundle), []byte("PRIVATE KEY"), []byte("PUBLIC! KEY"), 2)
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut head": bundle[:2], "cut": bundle[:len(bundle)/2], "endless": []byte("\xff\xff\xff\xffx"),
		"other block": other,
		"empty":       {0, 0, 0, 0},
	} {
		if _, _, err := ReadBundle(bytes.NewReader(bad)); !errors.Is(err, errBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := ReadBundle(strings.NewReader(strings.Repeat("\x00\x00\x10\x00", 2000))); !errors.Is(err, errBundle) {
		t.Errorf("zeros: %v", err)
	}
}
