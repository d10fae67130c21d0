package frames

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/clients/frontend"
	"ringlet/internal/secret"
	"ringlet/source/live"
	"ringlet/testkit/compiled"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// openSecret opens an input with a secret, and says where that is.
func openSecret(t *testing.T) (*feed, string) { return openWithSecret(t, strings.Repeat("s3cr3t", 4)) }

func openWithSecret(t *testing.T, content string) (*feed, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(file, []byte(content+"\n"), 0o600))
	l, err := OpenTCP(t.Context(), settings("127.0.0.1:0?secret="+file))
	must.OK(t, err)
	f := l.(*feed)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	return f, file
}

// TestSecret: a front-end that has the secret is attached, by the client of this Ringlet.
func TestSecret(t *testing.T) {
	f, file := openSecret(t)
	s, err := frontend.Dial(within(t), "tcp:"+f.Addr(), frontend.StreamSettings{Name: "a", SecretFile: file})
	must.OK(t, err)
	for e := range uint64(10) {
		must.OK(t, s.Send(within(t), e, data(e)))
	}
	collect(t, f, 0, 10)
	f.SetSafeBelow(10)
	must.OK(t, s.Leave(within(t)))
}

// TestNoSecret: who has none, or another, is told why, attaches nothing and ends nothing.
func TestNoSecret(t *testing.T) {
	f, _ := openSecret(t)
	for name, h := range map[string]hello{
		"of version 1":   {Version: version1, Source: anySource},
		"without secret": {Version: currentVersion, Source: anySource},
	} {
		p, a := connect(t, f, h)
		if a.Code != codeBadSource || !strings.Contains(a.Sentence, "asks for a secret") {
			t.Errorf("%s: %+v", name, a)
		}
		p.closed()
	}
	other := filepath.Join(t.TempDir(), "other")
	must.OK(t, os.WriteFile(other, bytes.Repeat([]byte("x"), 32), 0o600))
	_, err := frontend.Dial(within(t), "tcp:"+f.Addr(), frontend.StreamSettings{SecretFile: other})
	if err == nil || !strings.Contains(err.Error(), "does not prove") {
		t.Error(err)
	}
	_, err = frontend.Dial(within(t), "tcp:"+f.Addr(), frontend.StreamSettings{})
	if err == nil || !strings.Contains(err.Error(), "asks for a secret") {
		t.Error(err)
	}
	open := openTCP(t)
	_, err = frontend.Dial(within(t), "tcp:"+open.Addr(), frontend.StreamSettings{SecretFile: other})
	if err == nil || !strings.Contains(err.Error(), "asks for no secret") {
		t.Error(err)
	}
	if n := f.Stats().FrontendsAttached; n != 0 {
		t.Errorf("%d are attached", n)
	}
}

// TestForgedProof: a proof that is made without the secret, or of another connection, is none.
func TestForgedProof(t *testing.T) {
	f, _ := openSecret(t)
	said := appendHello(nil, hello{Version: currentVersion, Source: anySource})
	binary.LittleEndian.PutUint16(said[16:], uint16(optionSize+minNonce))
	said = append(said, optionSecret, 0, minNonce, 0)
	said = append(said, make([]byte, minNonce)...)
	var before answer
	for _, last := range []string{"", "again"} {
		c, err := net.Dial("tcp", f.Addr())
		must.OK(t, err)
		p := &peer{c.(*net.TCPConn), t}
		p.send(said)
		a := p.answer()
		if a.Code != codeProofWanted || len(a.Sentence) != 64 || a.Sentence == before.Sentence || a.A == before.A {
			t.Fatalf("%+v, and before %+v", a, before)
		}
		before = a
		p.send(append([]byte(proofMagic), secret.Proof([]byte("guess"+last), proofMagic, said)...))
		if a := p.answer(); a.Code != codeBadSource || !strings.Contains(a.Sentence, "has another one") {
			t.Errorf("%+v", a)
		}
		p.closed()
		must.OK(t, c.Close())
	}
}

// TestSecretAddresses: what is asked for behind an address is a secret, or refused.
func TestSecretAddresses(t *testing.T) {
	for _, text := range []string{"127.0.0.1:0?secret=", "127.0.0.1:0?secrte=a", "127.0.0.1?secret=a"} {
		if CheckTCP(text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestSilentStrangersKeepNobodyOut: those who say nothing have all places, and come again; a front-end gets in.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	f := openTCP(t)
	over := make(chan struct{})
	defer close(over)
	for range 2 * maxConns {
		go func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				c, err := net.DialTimeout("tcp", f.Addr(), patiently.LongTimeout)
				if err != nil {
					return
				}
				_ = c.SetReadDeadline(time.Now().Add(patiently.LongTimeout))
				_, _ = c.Write([]byte("R"))
				_, _ = c.Read(make([]byte, 100)) // until it must make room
				_ = c.Close()
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	await(t, f, "strangers make room", func(s live.Stats) bool { return s.RefusedMessages > maxConns })
	s, err := frontend.Dial(within(t), "tcp:"+f.Addr(), frontend.StreamSettings{})
	must.OK(t, err)
	must.OK(t, s.Leave(within(t)))
}

// TestSecretPython: the client in Python proves the secret of RINGLET_SECRET_FILE, and refuses an input that asks for
// none.
func TestSecretPython(t *testing.T) {
	f, file := openSecret(t)
	t.Setenv("RINGLET_SECRET_FILE", file)
	said := runEndingFrontend(t, f, "pause")
	must.OK(t, drain(within(t), f, acceptAny))
	if s := said(); s != "" || f.Stats().Fragments != 100 {
		t.Errorf("%s, %+v", s, f.Stats())
	}
	out, err := python(t, "ends.py", "tcp:"+openTCP(t).Addr(), "empty").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "asks for no secret") {
		t.Errorf("%v: %s", err, out)
	}
	other := filepath.Join(t.TempDir(), "other")
	must.OK(t, os.WriteFile(other, bytes.Repeat([]byte("x"), 32), 0o600))
	for name, want := range map[string]string{other: "does not prove", "": "asks for a secret"} {
		t.Setenv("RINGLET_SECRET_FILE", name)
		strict, _ := openSecret(t)
		out, err = python(t, "ends.py", "tcp:"+strict.Addr(), "empty").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v: %s", name, err, out)
		}
	}
}

// TestSecretC: the client in C does the same, with secrets shorter and longer than a block of SHA-256.
func TestSecretC(t *testing.T) {
	program := compiled.C(t, "../../clients/c", "../../clients/frontend/testdata/stream.c")
	run := func(f *feed) (string, error) {
		out, err := exec.CommandContext(within(t), program, "tcp:"+f.Addr(), "0", "10", "100", "10000").CombinedOutput()
		return string(out), err
	}
	for _, size := range []int{secret.MinSize, 64, 65, secret.MaxSize} {
		f, file := openWithSecret(t, strings.Repeat("s", size))
		t.Setenv("RINGLET_SECRET_FILE", file)
		drained := make(chan error, 1)
		go func() { drained <- drain(within(t), f, acceptAny) }()
		if out, err := run(f); err != nil || f.Stats().Fragments != 10 {
			t.Errorf("%d bytes: %v: %s", size, err, out)
			continue
		}
		must.OK(t, patiently.Receive(t, drained, "the run does not end"))
	}
	if out, err := run(openTCP(t)); err == nil || !strings.Contains(out, "asks for no secret") {
		t.Errorf("%v: %s", err, out)
	}
	other := filepath.Join(t.TempDir(), "other")
	must.OK(t, os.WriteFile(other, bytes.Repeat([]byte("x"), 32), 0o600))
	for name, want := range map[string]string{other: "does not prove", "": "asks for a secret"} {
		t.Setenv("RINGLET_SECRET_FILE", name)
		f, _ := openSecret(t)
		if out, err := run(f); err == nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v: %s", name, err, out)
		}
	}
}
