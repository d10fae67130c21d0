package screens

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// certified prepares a browser as docs/page.md tells a person to: the authority is trusted, and the certificate of the
// user, if any, is imported. Which certificate to show a browser asks; here it is told so beforehand.
func certified(t *testing.T, keys, user string) func(dir string) {
	t.Helper()
	for _, needed := range []string{"certutil", "pk12util", "openssl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("SKIPPED: no browser with certificates: %v (Debian: libnss3-tools, openssl)", err)
		}
	}
	do := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	return func(dir string) {
		db := filepath.Join(dir, ".pki/nssdb")
		prefs := filepath.Join(dir, "Default/Preferences")
		for _, d := range []string{db, filepath.Dir(prefs)} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		do("certutil", "-d", "sql:"+db, "-N", "--empty-password")
		do("certutil", "-d", "sql:"+db, "-A", "-n", "ringlet", "-t", "C,,", "-i", filepath.Join(keys, "ca.crt"))
		if user != "" {
			p12 := filepath.Join(dir, user+".p12")
			do("openssl", "pkcs12", "-export", "-in", filepath.Join(keys, user+".crt"), "-inkey",
				filepath.Join(keys, user+".key"),
				"-out", p12, "-passout", "pass:")
			do("pk12util", "-d", "sql:"+db, "-i", p12, "-W", "")
		}
		choice := `{"profile": {"managed_auto_select_certificate_for_urls": ["{\"pattern\": \"*\", \"filter\": {}}"]}}`
		if err := os.WriteFile(prefs, []byte(choice), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The page elsewhere than on loopback: HTTPS, and a client certificate says who asks. An operator runs a run, a viewer
// watches it and commands nothing, whoever has no certificate sees nothing.
func TestThePageWithCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short, no real partition")
	}
	p := newPartition(t, 2, "crew:operator", "visitor:viewer")
	crew, visitor, nobody := certified(t, p.keys, "crew"), certified(t, p.keys, "visitor"), certified(t, p.keys, "")
	p.page = "0.0.0.0:0" // not loopback alone, and reached by it
	at := p.steer(t)
	at = "https://127.0.0.1" + at[strings.LastIndex(at, ":"):]
	for i := range 2 {
		start(t, p.program, "node", "--name", fmt.Sprint("n", i), "--join", p.join, "--certs", p.keys)
	}

	b := open(t, desk, false, crew)
	b.do(chromedp.Navigate(at))
	b.state("Offline")
	watcher := open(t, desk, false, visitor)
	watcher.do(chromedp.Navigate(at))
	watcher.state("Offline")

	b.press(".owner button")
	b.sees(".owner", "You have control")
	watcher.sees(".owner", "crew has control")
	for _, step := range []struct{ command, state string }{
		{"load", "NotReady"}, {"configure", "Ready"}, {"start", "Running"},
	} {
		b.command(step.command)
		if step.command != "configure" {
			b.press("dialog button[type=submit]")
		}
		b.state(step.state)
	}
	for _, who := range []*browser{b, watcher} { // over server-sent events
		who.sees(".events", "Running")
		who.wait("a rate is shown", `/[1-9]/.test(document.querySelector(".figure .value").textContent)`)
	}
	watcher.js(`document.querySelector('.commands [data-command="stop"]').click()`)
	watcher.sees(".why", "You are a viewer")
	watcher.js(`window.answer = 0; fetch("/v1/command", {method: "POST", body: '{"command": "stop"}'}).then(r => window.answer = r.status)`)
	watcher.wait("a command of a viewer is refused", `window.answer === 403`)
	b.command("stop")
	b.press("dialog button[type=submit]")
	b.state("Ready")
	watcher.screen("#/runs/1", `document.querySelector("main .chip.large")`)
	watcher.sees("main .chip.large", "GOOD")
	watcher.sees("main", "crew")
	b.clean()
	watcher.clean()

	stranger := open(t, desk, false, nobody)
	ctx, cancel := context.WithTimeout(stranger.ctx, waitLimit)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Navigate(at))
	// Mostly ERR_BAD_SSL_CLIENT_AUTH_CERT. In TLS 1.3 a server judges a client after the handshake, so the browser may
	// find the connection gone before it has read why.
	if err == nil || !strings.Contains(err.Error(), "net::ERR_") {
		t.Errorf("without a certificate: %v", err)
	}
}
