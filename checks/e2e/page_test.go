package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// page asks what the page is made of as a browser would: by a name that is in the control's certificate.
func (k *kubernetes) page(t *testing.T) {
	_, port, err := net.SplitHostPort(k.forward("7980"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(k.keys, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	visitor, err := tls.LoadX509KeyPair(filepath.Join(k.keys, "visitor.crt"), filepath.Join(k.keys, "visitor.key"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(certificates ...tls.Certificate) (*http.Response, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates},
			ForceAttemptHTTP2: true, DisableKeepAlives: true}
		return (&http.Client{Transport: transport, Timeout: limit}).Get("https://localhost:" + port + "/v1/status")
	}
	var answer struct{ You struct{ Name, Role string } }
	eventually(t, time.Minute, "the page answers a viewer", func() bool {
		r, err := ask(visitor)
		if err != nil {
			t.Log(err)
			return false
		}
		defer func() { _ = r.Body.Close() }()
		return r.StatusCode == http.StatusOK && json.NewDecoder(r.Body).Decode(&answer) == nil
	})
	if answer.You.Name != "visitor" || answer.You.Role != "ROLE_VIEWER" {
		t.Errorf("the page takes the viewer for %+v", answer.You)
	}
	if r, err := ask(); err == nil {
		_ = r.Body.Close()
		t.Errorf("without a certificate: %s", r.Status)
	}
}
