package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"

	"ringlet/testkit/logged"
	"ringlet/testkit/patiently"
)

// saved is a directory with the keys of two nodes.
func saved(t *testing.T, ca *CA, life time.Duration, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		save(t, dir, ca, name, life)
	}
	return dir
}

func save(t *testing.T, dir string, ca *CA, name string, life time.Duration) {
	t.Helper()
	id, err := ca.Issue(name, nil, RoleNode, life)
	if err == nil {
		err = id.Save(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t *testing.T, dir, name string) *Identity {
	t.Helper()
	id, err := Load(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// handshake makes a gRPC handshake between n1, which listens, and somebody, and returns their connections.
func handshake(server, client credentials.TransportCredentials) (atServer, atClient net.Conn, err error) {
	a, b := net.Pipe()
	for _, end := range []net.Conn{a, b} { // a pipe holds nothing: an alert waits until somebody reads
		_ = end.SetDeadline(time.Now().Add(patiently.Scaled(10 * time.Second)))
		defer func() { _ = end.SetDeadline(time.Time{}) }()
	}
	type side struct {
		conn net.Conn
		err  error
	}
	served := make(chan side, 1)
	go func() {
		c, _, err := server.ServerHandshake(a)
		served <- side{c, err}
	}()
	atClient, _, err = client.ClientHandshake(context.Background(), "n1", b)
	if err == nil {
		go func() { _, _ = atClient.Write([]byte("x")) }() // TLS 1.3 tells a client late that it is refused
	} else {
		_ = b.Close()
	}
	s := patiently.Hold(served)
	if s.err == nil && err == nil {
		_, err = io.ReadFull(s.conn, make([]byte, 1))
	}
	return s.conn, atClient, errors.Join(err, s.err)
}

// TestRenewedKeysAreUsedAtOnce: credentials that were made with the old files shake hands with the new ones, also those
// of another authority once ca.crt names both.
func TestRenewedKeysAreUsedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := mustCA(t)
		dir := saved(t, old, time.Hour, "n0", "n1")
		n0, n1 := mustLoad(t, dir, "n0"), mustLoad(t, dir, "n1")
		server, client := n1.ServerCredentials(slog.Default()), n0.ClientCredentials("n1", slog.Default())
		good := func(when string) {
			t.Helper()
			atServer, atClient, err := handshake(server, client)
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			_ = atClient.Close()
			_ = atServer.Close()
		}
		good("at first")
		time.Sleep(50 * time.Minute)
		save(t, dir, old, "n0", time.Hour)
		save(t, dir, old, "n1", time.Hour)
		time.Sleep(20 * time.Minute)
		good("after the old ones have ended")
		if !n0.NotAfter().After(time.Now()) || n0.renewalCount() == 0 || n1.renewalCount() == 0 {
			t.Errorf("good until %v, renewed %d and %d times", n0.NotAfter(), n0.renewalCount(), n1.renewalCount())
		}

		// Another authority: first both trust both, then each gets its certificate from the new one.
		fresh := mustCA(t)
		both := append(pemCert(old.cert), pemCert(fresh.cert)...)
		if err := os.WriteFile(filepath.Join(dir, caCert), both, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * reloadInterval)
		good("with two authorities")
		save(t, dir, fresh, "n0", time.Hour)
		time.Sleep(2 * reloadInterval)
		good("with one node on the new authority")
		save(t, dir, fresh, "n1", time.Hour)
		if err := os.WriteFile(filepath.Join(dir, caCert), pemCert(fresh.cert), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * reloadInterval)
		good("with the new authority alone")
		stranger := mustIssue(t, old, "n0", RoleNode)
		if _, _, err := handshake(server, stranger.ClientCredentials("n1", slog.Default())); err == nil {
			t.Error("who is of the old authority is let in still")
		}
	})
}

// TestBadKeysChangeNothing: what cannot be used is told, and the process goes on with what it has.
func TestBadKeysChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := mustCA(t)
		dir := saved(t, ca, time.Hour, "n0", "n1")
		id := mustLoad(t, dir, "n0")
		end := id.NotAfter()
		log := &logged.Buffer{}
		ctx, cancel := context.WithCancel(t.Context())
		go id.Watch(ctx, log.Logger())
		synctest.Wait()
		for name, damage := range map[string]func() error{
			"half a file":     func() error { return os.WriteFile(filepath.Join(dir, "n0.crt"), []byte("-----BEGIN"), 0o600) },
			"no file":         func() error { return os.Remove(filepath.Join(dir, "n0.crt")) },
			"another's":       func() error { return copyFile(filepath.Join(dir, "n1.crt"), filepath.Join(dir, "n0.crt")) },
			"no authority":    func() error { return os.WriteFile(filepath.Join(dir, caCert), nil, 0o600) },
			"other authority": func() error { return os.WriteFile(filepath.Join(dir, caCert), pemCert(mustCA(t).cert), 0o600) },
		} {
			reported := log.Count("cannot be used")
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * watchInterval)
			synctest.Wait()
			if !id.NotAfter().Equal(end) || log.Count("cannot be used") <= reported && name != "no file" {
				t.Errorf("%s: good until %v, told %d times", name, id.NotAfter(), log.Count("cannot be used")-reported)
			}
			if err := os.WriteFile(filepath.Join(dir, caCert), pemCert(ca.cert), 0o600); err != nil {
				t.Fatal(err)
			}
			again := mustIssue(t, ca, "n0", RoleNode)
			if err := again.Save(dir); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * watchInterval)
			end = again.NotAfter()
			if !id.NotAfter().Equal(end) {
				t.Errorf("%s: not mended", name)
			}
		}
		cancel()
		synctest.Wait()
	})
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// TestConnectionsEndWithTheCertificate: a connection whose peer's certificate ends is ended with a sentence, at
// whichever side; a peer that has a new one comes in again.
func TestConnectionsEndWithTheCertificate(t *testing.T) {
	for _, short := range []string{"n0", "n1"} {
		t.Run(short+" ends", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca := mustCA(t)
				dir := saved(t, ca, time.Hour, "n0", "n1")
				save(t, dir, ca, short, 10*time.Minute)
				n0, n1 := mustLoad(t, dir, "n0"), mustLoad(t, dir, "n1")
				log := &logged.Buffer{}
				server, client := n1.ServerCredentials(log.Logger()), n0.ClientCredentials("n1", log.Logger())
				atServer, atClient, err := handshake(server, client)
				if err != nil {
					t.Fatal(err)
				}
				judge := atServer // sees that n0 has ended
				if short == "n1" {
					judge = atClient
				}
				time.Sleep(9 * time.Minute)
				if log.Count("ended") != 0 {
					t.Error("ended before its time")
				}
				failed := make(chan error, 1)
				go func() {
					_, err := judge.Read(make([]byte, 1))
					failed <- err
				}()
				time.Sleep(2 * time.Minute)
				var ended *expiredError
				if err := <-failed; !errors.As(err, &ended) || ended.Peer != short {
					t.Errorf("the connection ends with: %v", err)
				}
				if log.Count("a connection was ended") != 1 {
					t.Errorf("the log says %q", log)
				}
				_, _ = atServer.Close(), atClient.Close()
				if _, _, err := handshake(server, client); err == nil {
					t.Error("a handshake with a certificate that has ended")
				}
				save(t, dir, ca, short, time.Hour)
				time.Sleep(2 * reloadInterval)
				atServer, atClient, err = handshake(server, client)
				if err != nil {
					t.Fatalf("with a new certificate: %v", err)
				}
				_, _ = atServer.Close(), atClient.Close()
			})
		})
	}
}

// TestWarnings: once a day in the last fortnight, hourly on the last day and after it, and not before.
func TestWarnings(t *testing.T) {
	begin := time.Unix(0, 0)
	for _, tc := range []struct {
		life  time.Duration
		first time.Duration // warning, before the end
		most  int           // warnings until two days after
		least int
	}{
		{90 * 24 * time.Hour, ExpiryWarning, 14 + 24 + 49, 13 + 24 + 48},
		{24 * time.Hour, 8 * time.Hour, 8 + 49, 8 + 48},
	} {
		var w expiryWarner
		end, warned := begin.Add(tc.life), 0
		for at := begin; at.Before(end.Add(48 * time.Hour)); at = at.Add(watchInterval) {
			yes, remaining := w.step(at, begin, end)
			if yes && warned == 0 && remaining != tc.first {
				t.Errorf("a life of %v: first told %v before its end", tc.life, remaining)
			}
			if yes {
				warned++
			}
		}
		if warned > tc.most || warned < tc.least {
			t.Errorf("a life of %v: told %d times, want %d to %d", tc.life, warned, tc.least, tc.most)
		}
		if yes, _ := w.step(begin, begin, begin.Add(tc.life)); yes {
			t.Error("told of a certificate that is new")
		}
	}
}

// TestProtocolsOutliveRenewal: what is spoken at a listener is the same whatever certificate it has.
func TestProtocolsOutliveRenewal(t *testing.T) {
	dir := saved(t, mustCA(t), time.Hour, "n0", "n1")
	c := WithProtocols(mustLoad(t, dir, "n0").Server(), "x")
	now, err := c.GetConfigForClient(&tls.ClientHelloInfo{})
	if err != nil || len(now.NextProtos) != 1 || now.NextProtos[0] != "x" || len(c.NextProtos) != 1 {
		t.Errorf("%v, %v, %v", c.NextProtos, now.NextProtos, err)
	}
}
