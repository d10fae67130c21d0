package api

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestAConnectionMayOutliveItsCertificateAndACallMayNot(t *testing.T) {
	ca, err := certs.NewCA(0)
	if err != nil {
		t.Fatal(err)
	}
	for life, want := range map[time.Duration]string{time.Hour: "", -time.Minute: "the certificate of alice was good " +
		"until"} {
		id, err := ca.Issue("alice", nil, certs.RoleOperator, life)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := id.Client("control").GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		chain := []*x509.Certificate{pair.Leaf}
		c, err := callerByCertificate(caller{Name: unknownName}, tls.ConnectionState{PeerCertificates: chain,
			VerifiedChains: [][]*x509.Certificate{chain}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("of a life of %v: %v", life, err)
		}
		if want == "" && c.Role != ecsv1.Role_ROLE_OPERATOR || want != "" && c.Role != ecsv1.Role_ROLE_UNSPECIFIED {
			t.Errorf("of a life of %v: %+v", life, c)
		}
	}
	if _, err := callerByCertificate(caller{}, tls.ConnectionState{}); err == nil {
		t.Error("no certificate says who asks")
	}
}

func TestWhatIsNotInTheTableIsRefused(t *testing.T) {
	if err := permit(caller{Name: "ada", Role: ecsv1.Role_ROLE_ADMIN}, "/ringlet.ecs.v1.RunControl/Explode"); err == nil {
		t.Error("an admin may call what is not in the table")
	}
}
