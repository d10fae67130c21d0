package decision

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/internal/secret"
	"ringlet/testkit/logged"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// proves is a subscriber's side, as docs/format/decision.md has it.
func proves(conn io.ReadWriter, key []byte) error {
	var challenge [challengeSize]byte
	if _, err := io.ReadFull(conn, challenge[:]); err != nil {
		return err
	}
	if string(challenge[:len(challengeMark)]) != challengeMark {
		return errProof
	}
	nonce, localNonce := challenge[len(challengeMark):], secret.NewNonce()
	say := append(append([]byte(proofMark), localNonce...), secret.Proof(key, proofMark, nonce, localNonce)...)
	if _, err := conn.Write(say); err != nil {
		return err
	}
	var got [len(acceptMark) + secret.ProofSize]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return err
	}
	if !secret.Equal(got[:], append([]byte(acceptMark), secret.Proof(key, acceptMark, nonce, localNonce)...)) {
		return errProof
	}
	return nil
}

// TestSubscribersProveTheSecret: who has the secret gets decisions, and proves that the outlet has it; who has another,
// says nothing or says what somebody else said gets none.
func TestSubscribersProveTheSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(file, []byte(strings.Repeat("s", 32)), 0o600))
	key, err := secret.Read(file)
	must.OK(t, err)
	var stats OutletStats
	server, err := Listen("127.0.0.1:0?secret="+file, &stats, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", server.Addr().String())
		must.OK(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		must.OK(t, conn.SetDeadline(time.Now().Add(patiently.LongTimeout)))
		return conn
	}
	silent := dial()
	good := dial()
	must.OK(t, proves(good, key))
	if err := proves(dial(), []byte("another secret of 32 bytes......")); err == nil {
		t.Error("another secret is taken")
	}
	replay := dial()
	_, err = io.ReadFull(replay, make([]byte, challengeSize))
	must.OK(t, err)
	peerNonce := secret.NewNonce()
	forged := secret.Proof(key, proofMark, make([]byte, secret.NonceSize), peerNonce)
	_, err = replay.Write(append(append([]byte(proofMark), peerNonce...), forged...))
	must.OK(t, err)
	if b, _ := io.ReadAll(replay); len(b) > 0 {
		t.Errorf("a proof for another nonce is answered with %q", b)
	}
	handed := bytes.Repeat([]byte("d"), ResultSize)
	for stats.SubscribersJoined.Load() == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	server.Publish(handed)
	got := make([]byte, ResultSize)
	if _, err := io.ReadFull(good, got); err != nil || !bytes.Equal(got, handed) {
		t.Errorf("%q, %v", got, err)
	}
	must.OK(t, silent.Close())
	must.OK(t, server.Close())
	if n := stats.SubscribersJoined.Load(); n != 1 {
		t.Errorf("%d have subscribed", n)
	}
}

// TestSilentStrangersKeepNoSubscriberOut: more strangers than a host has places say nothing; who has the secret comes
// in beside them at once, and stays.
func TestSilentStrangersKeepNoSubscriberOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(file, []byte(strings.Repeat("s", 32)), 0o600))
	var stats OutletStats
	var log logged.Buffer
	server, err := Listen("127.0.0.1:0?secret="+file, &stats, slog.New(slog.NewTextHandler(&log, nil)))
	must.OK(t, err)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", server.Addr().String())
		must.OK(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		must.OK(t, conn.SetDeadline(time.Now().Add(patiently.LongTimeout)))
		return conn
	}
	strangers := func() {
		for range 40 {
			dial()
		}
	}
	strangers()
	began := time.Now()
	good := dial()
	must.OK(t, proves(good, []byte(strings.Repeat("s", 32))))
	if took := time.Since(began); took >= proofTimeout {
		t.Errorf("it took %v, until strangers had no time left", took)
	}
	for until := time.Now().Add(patiently.LongTimeout); stats.SubscribersJoined.Load() == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	strangers() // who has proven its secret makes no room
	server.Publish(make([]byte, ResultSize))
	_, err = io.ReadFull(good, make([]byte, ResultSize))
	must.OK(t, err)
	must.OK(t, server.Close())
	if n := log.Count("msg=\"a connection was closed"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &log)
	}
	if log.Count("more lines such as this were not logged") != 1 {
		t.Errorf("nobody is told how many there were:\n%s", &log)
	}
}

// TestOutletsOfDecisionsWithSecrets: the address may have the file of a secret, and nothing else.
func TestOutletsOfDecisionsWithSecrets(t *testing.T) {
	if _, err := ParseAddresses("buffer:a,tcp:127.0.0.1:7001?secret=/etc/s"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"tcp:127.0.0.1:7001?secret=", "tcp:127.0.0.1:7001?share"} {
		if _, err := ParseAddresses(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if _, err := Listen("127.0.0.1:0?secret="+filepath.Join(t.TempDir(), "none"), nil, nil); err == nil {
		t.Error("a secret that is not there is taken")
	}
}
