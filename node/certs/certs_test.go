package certs

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

func mustCA(t *testing.T) *CA {
	t.Helper()
	ca, err := NewCA(0)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func mustIssue(t *testing.T, ca *CA, name string, role Role, hosts ...string) *Identity {
	t.Helper()
	id, err := ca.Issue(name, hosts, role, 0)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// result of one side of a handshake.
type result struct {
	state tls.ConnectionState
	err   error
}

// shake runs a handshake over loopback and then moves one byte each way, since in TLS 1.3 a client learns of its
// refusal only when it reads.
func shake(t *testing.T, server, client *tls.Config) (s, c result) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	side := func(conn *tls.Conn) result {
		// Closing with something unread would send a reset, which may overtake the alert that the other side is to see.
		defer func() {
			_ = conn.NetConn().(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn.NetConn())
			conn.Close()
		}()
		if err := conn.SetDeadline(time.Now().Add(patiently.LongTimeout)); err != nil { // only against hanging
			return result{err: err}
		}
		if err := conn.Handshake(); err != nil {
			return result{err: err}
		}
		if _, err := conn.Write([]byte{1}); err != nil {
			return result{err: err}
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return result{err: err}
		}
		return result{state: conn.ConnectionState()}
	}
	done := make(chan result)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			done <- result{err: err}
			return
		}
		done <- side(tls.Server(conn, server))
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c = side(tls.Client(conn, client))
	return patiently.Receive(t, done), c
}

func TestPeersOfOneClusterKnowEachOther(t *testing.T) {
	ca := mustCA(t)
	s, c := shake(t, mustIssue(t, ca, "n0", RoleNode).Server(), mustIssue(t, ca, "control", RoleControl).Client("n0"))
	if s.err != nil || c.err != nil {
		t.Fatalf("server: %v, client: %v", s.err, c.err)
	}
	if p, err := PeerIdentity(s.state); err != nil || p != (Peer{"control", RoleControl}) {
		t.Errorf("the server sees %v, %v", p, err)
	}
	if p, err := PeerIdentity(c.state); err != nil || p != (Peer{"n0", RoleNode}) {
		t.Errorf("the client sees %v, %v", p, err)
	}
	if s.state.Version != tls.VersionTLS13 {
		t.Errorf("TLS version %x", s.state.Version)
	}
}

func TestRefusals(t *testing.T) {
	ours, theirs := mustCA(t), mustCA(t)
	n0, n1 := mustIssue(t, ours, "n0", RoleNode), mustIssue(t, ours, "n1", RoleNode)
	stranger := mustIssue(t, theirs, "n1", RoleNode)
	later := func(c *tls.Config) *tls.Config {
		c.Time = func() time.Time { return time.Now().Add(2 * defaultLife) }
		return c
	}
	nameless := n1.Client("n0")
	nameless.GetClientCertificate = nil
	old := n1.Client("n0")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	strangerWhoTrustsUs := stranger.Client("n0")
	strangerWhoTrustsUs.RootCAs = n0.material().pool
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		atServer       Reason // "" where the other side is the one to refuse, and what arrives here is not looked at
		atClient       Reason
	}{
		{"listener of another cluster", stranger.Server(), n0.Client("n1"), RefusedByPeer, AnotherCA},
		{"dialler of another cluster", n0.Server(), strangerWhoTrustsUs, AnotherCA, AnotherCA},
		{"another node answers", n1.Server(), n0.Client("n2"), "", WrongName},
		{"another node with the name as host", mustIssue(t, ours, "n1", RoleNode, "n2").Server(), n0.Client("n2"), "",
			WrongName},
		{"listener's certificate expired", n1.Server(), later(n0.Client("n1")), RefusedByPeer, Expired},
		{"dialler's certificate expired", later(n1.Server()), n0.Client("n1"), Expired, Expired},
		{"no client certificate", n0.Server(), nameless, NoCertificate, NoCertificate},
		{"old TLS", n0.Server(), old, "", OldTLS},
		{"a person on a link between members", n0.Server(), mustIssue(t, ours, "alice", RoleOperator).Client("n0"),
			NotAMember, RefusedByPeer},
		{"a person called as a node on such a link", n0.Server(), mustIssue(t, ours, "n1", RoleAdmin).Client("n0"),
			NotAMember, RefusedByPeer},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, k := shake(t, c.server, c.client)
			if s.err == nil || k.err == nil {
				t.Fatalf("accepted: server %v, client %v", s.err, k.err)
			}
			check := func(side string, err error, want Reason) {
				var refused *RefusedError
				if want == "" {
					return
				}
				if !errors.As(Explain(err), &refused) || refused.Why != want || refused.Detail == "" {
					t.Errorf("%s: %v, explained as %v; want %s", side, err, Explain(err), want)
				}
			}
			check("server", s.err, c.atServer)
			check("client", k.err, c.atClient)
		})
	}
}

// A person has a name and a role like a member, is let in where people are, and answers no one.
func TestPeople(t *testing.T) {
	ca := mustCA(t)
	control := mustIssue(t, ca, "control", RoleControl)
	for _, role := range []Role{RoleViewer, RoleOperator, RoleAdmin, RoleNode, RoleControl} {
		s, c := shake(t, control.ServerForUsers(), mustIssue(t, ca, "alice", role).Client("control"))
		if s.err != nil || c.err != nil {
			t.Fatalf("%s: server: %v, client: %v", role, s.err, c.err)
		}
		if p, err := PeerIdentity(s.state); err != nil || p != (Peer{"alice", role}) ||
			role.IsUser() == (role == RoleNode || role == RoleControl) {
			t.Errorf("the server sees %v, %v", p, err)
		}
	}
	if _, c := shake(t, mustIssue(t, ca, "n0", RoleAdmin).ServerForUsers(), control.Client("n0")); c.err == nil {
		t.Error("a person's certificate listens as n0")
	}
	dir := t.TempDir()
	if err := mustIssue(t, ca, "n0", RoleNode).Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := mustIssue(t, ca, "n0", RoleAdmin).Save(dir); err == nil {
		t.Error("a person's certificate is written over a node's")
	}
	if _, err := ca.Issue(TokenUserName, nil, RoleViewer, 0); err == nil {
		t.Errorf("a person is called %s", TokenUserName)
	}
}

func TestExplainLeavesOtherErrorsAlone(t *testing.T) {
	for _, err := range []error{nil, net.ErrClosed, errors.New("bad certificate of merit")} {
		if got := Explain(err); !errors.Is(got, err) || errors.As(got, new(*RefusedError)) {
			t.Errorf("%v became %v", err, got)
		}
	}
	// What quic-go makes of an alert.
	far := errors.New("CRYPTO_ERROR 0x130 (remote): tls: unknown certificate authority")
	var refused *RefusedError
	if !errors.As(Explain(far), &refused) || refused.Why != AnotherCA || !errors.Is(refused, far) {
		t.Errorf("explained as %v", Explain(far))
	}
}

func TestIssueRefuses(t *testing.T) {
	ca := mustCA(t)
	for _, name := range []string{"", "N0", "n_0", "-n", "n-", "n.0", "n0/../n1", string(make([]byte, 64))} {
		if _, err := ca.Issue(name, nil, RoleNode, 0); err == nil {
			t.Errorf("name %q accepted", name)
		}
	}
	if _, err := ca.Issue("n0", nil, "king", 0); err == nil {
		t.Error("role accepted")
	}
	if _, err := ca.Issue("n0", []string{""}, RoleNode, 0); err == nil {
		t.Error("empty host accepted")
	}
}

func TestLife(t *testing.T) {
	ca, err := NewCA(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	short, err := ca.Issue("n0", []string{"localhost", "127.0.0.1", "::1"}, RoleNode, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if remaining := time.Until(short.NotAfter()); remaining > time.Minute || remaining < 0 {
		t.Errorf("short life ends in %v", remaining)
	}
	if long := mustIssue(t, ca, "n0", RoleNode); long.NotAfter().After(ca.cert.NotAfter) {
		t.Error("the certificate outlives its authority")
	}
	if got := short.material().pair.Leaf; len(got.IPAddresses) != 2 || len(got.DNSNames) != 2 {
		t.Errorf("names %v, addresses %v", got.DNSNames, got.IPAddresses)
	}
}
