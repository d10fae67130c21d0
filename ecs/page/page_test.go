package page

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ringlet/internal/counter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// described are the counters of these tests.
var described = counter.List{{Name: "ru.writes", Help: "writes", Kind: counter.Count}}

func get(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler(described).ServeHTTP(w, r)
	return w.Result()
}

func TestWhatIsServed(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		contentType  string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/index.html", 200, "text/html; charset=utf-8"},
		{"GET", "/app.css", 200, "text/css; charset=utf-8"},
		{"GET", "/js/main.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/icon.svg", 200, "image/svg+xml"},
		{"GET", "/counters.json", 200, "application/json"},
		{"GET", "/banktypes.json", 200, "application/json"},
		{"GET", "/uplot/uPlot.iife.min.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/uplot/LICENSE.txt", 200, "text/plain; charset=utf-8"},
		{"GET", "/js/", 404, "text/plain; charset=utf-8"},
		{"GET", "/js/../page.go", 404, "text/plain; charset=utf-8"},
		{"GET", "/js/logic.test.mjs", 404, "text/plain; charset=utf-8"},
		{"GET", "/v1/status", 404, "text/plain; charset=utf-8"},
		{"POST", "/", 405, "text/plain; charset=utf-8"},
	} {
		r := get(t, c.method, c.path)
		if r.StatusCode != c.status || r.Header.Get("Content-Type") != c.contentType {
			t.Errorf("%s %s: %d %q", c.method, c.path, r.StatusCode, r.Header.Get("Content-Type"))
		}
		if r.Header.Get("Content-Security-Policy") != contentSecurityPolicy ||
			r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: not under the policy", c.method, c.path)
		}
	}
}

// A browser has each file once, and a new one after an upgrade.
func TestFilesAreSentOnce(t *testing.T) {
	first := get(t, "GET", "/app.css")
	tag := first.Header.Get("ETag")
	if tag == "" || first.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("%q, %q", tag, first.Header.Get("Cache-Control"))
	}
	for header, want := range map[string]int{
		tag:               304,
		"W/" + tag:        304,
		`"other", ` + tag: 304,
		"*":               304,
		`"other"`:         200,
		"":                200,
	} {
		if r := get(t, "GET", "/app.css", "If-None-Match", header); r.StatusCode != want {
			t.Errorf("If-None-Match %s: %d, not %d", header, r.StatusCode, want)
		}
	}
	if tag == get(t, "GET", "/js/main.js").Header.Get("ETag") {
		t.Error("two files have one tag")
	}
}

// Nothing in the page may come from elsewhere, and no data may become markup.
func TestNothingIsLoadedFromElsewhereOrMadeOfMarkup(t *testing.T) {
	for name, a := range assets(described) {
		if a.contentType == "" || a.body == "" {
			t.Errorf("%s is empty, or of no known kind", name)
		}
		if strings.HasPrefix(name, "/uplot/") {
			continue
		}
		for _, at := range regexp.MustCompile(`https?://[^\s"'<>)]*`).FindAllString(a.body, -1) {
			if at != "http://www.w3.org/2000/svg" { // the name of SVG; nothing is fetched from it
				t.Errorf("%s: an external address: %s", name, at)
			}
		}
		for _, word := range []string{
			"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "@import", "url(",
			" style=\"", "onclick=",
		} {
			if strings.Contains(a.body, word) {
				t.Errorf("%s has %s", name, word)
			}
		}
		for _, m := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(a.body, -1) {
			if _, there := assets(described)["/js/"+m[1]]; !there {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`from "\.\.([^"]+)"`).FindAllStringSubmatch(a.body, -1) {
			if _, there := assets(described)[m[1]]; !there {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/[^"]*)"`).FindAllStringSubmatch(assets(described)["/"].body,
		-1) {
		if _, there := assets(described)[m[1]]; !there {
			t.Errorf("index.html names %s, which is not there", m[1])
		}
	}
}

// What the script decides without a browser is tested where there is a Node.js.
func TestLogicOfTheScript(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: no node here, the tests in testdata/logic.test.mjs were not run")
	}
	out, err := exec.Command(node, "--test", "testdata/logic.test.mjs").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
