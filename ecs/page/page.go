package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"ringlet/event"
	"ringlet/internal/counter"
	"ringlet/internal/uplot"
)

//go:embed web
var webFiles embed.FS

// contentSecurityPolicy lets the page load files from its own origin only, and forbids inline scripts, so that markup
// in a value, such as a node's name, cannot run.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// asset is a file that is served.
type asset struct {
	body        string
	contentType string
	etag        string
}

// contentTypes are the content types by suffix. The table of the system may have others, or none.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json",
}

// assets are all files of the page, by path.
func assets(counters counter.List) map[string]asset {
	out := map[string]asset{}
	add := func(name, body string) {
		sum := sha256.Sum256([]byte(body))
		out[name] = asset{body, contentTypes[path.Ext(name)], `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	// The walk cannot fail, since the files are embedded.
	_ = fs.WalkDir(webFiles, "web", func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			text, _ := webFiles.ReadFile(file)
			add(strings.TrimPrefix(file, "web"), string(text))
		}
		return nil
	})
	add("/uplot/uPlot.iife.min.js", uplot.Script)
	add("/uplot/uPlot.min.css", uplot.Style)
	add("/uplot/phases.js", uplot.PhasesScript)
	add("/uplot/LICENSE.txt", uplot.License)
	described, _ := json.Marshal(counters) // cannot fail
	add("/counters.json", string(described))
	types, _ := json.Marshal(bankTypes()) // cannot fail
	add("/banktypes.json", string(types))
	out["/"] = out["/index.html"]
	return out
}

// bankTypes are the names of the bank types that have one, by number.
func bankTypes() map[int]string {
	names := map[int]string{}
	for n := range 256 {
		if name := event.BankType(n).String(); name != strconv.Itoa(n) {
			names[n] = name
		}
	}
	return names
}

// Handler serves the page; counters are the descriptions of counters that the page shows. It answers GET and HEAD.
func Handler(counters counter.List) http.Handler {
	all := assets(counters)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the page can be read only", http.StatusMethodNotAllowed)
			return
		}
		a, found := all[r.URL.Path]
		if !found {
			http.Error(w, "the page has no such file", http.StatusNotFound)
			return
		}
		// Browsers ask every time and get a file only if it has changed: after an upgrade none keeps half of the old page.
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", a.etag)
		h.Set("Content-Type", a.contentType)
		if matchesETag(r.Header.Get("If-None-Match"), a.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(a.body)) // fails if the browser is gone
		}
	})
}

// matchesETag says whether a header If-None-Match has the ETag: the browser has this version already.
func matchesETag(header, etag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == etag {
			return true
		}
	}
	return false
}
