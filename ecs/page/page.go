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

// contentSecurityPolicy lets the page load its own files and talk to its own origin. Nothing in it is inline: a value
// that got into the page as markup could do nothing.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// asset is a file as it is served.
type asset struct {
	body        string
	contentType string
	etag        string
}

// contentTypes of the files there are. The system's own table may say something else, or nothing.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json",
}

// assets lists everything there is by its path.
func assets(counters counter.List) map[string]asset {
	out := map[string]asset{}
	add := func(name, body string) {
		sum := sha256.Sum256([]byte(body))
		out[name] = asset{body, contentTypes[path.Ext(name)], `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	// The walk cannot fail: what is embedded is there.
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
	described, _ := json.Marshal(counters) // of words: it cannot fail
	add("/counters.json", string(described))
	types, _ := json.Marshal(bankTypes()) // likewise
	add("/banktypes.json", string(types))
	out["/"] = out["/index.html"]
	return out
}

// bankTypes are the names of those that have one, by their numbers.
func bankTypes() map[int]string {
	names := map[int]string{}
	for n := range 256 {
		if name := event.BankType(n).String(); name != strconv.Itoa(n) {
			names[n] = name
		}
	}
	return names
}

// Handler serves the page, which explains these counters. It answers GET and HEAD; what it does not have is not found.
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
		// Asked for every time and sent only when it changed: after an upgrade no browser keeps half of the old page.
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", a.etag)
		h.Set("Content-Type", a.contentType)
		if matchesETag(r.Header.Get("If-None-Match"), a.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(a.body)) // a browser that has gone needs no answer
		}
	})
}

// matchesETag says whether the browser has this version already.
func matchesETag(header, etag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == etag {
			return true
		}
	}
	return false
}
