package profile

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Path is the path of Handler's page.
const Path = "/debug/pprof/"

// Remotes reaches the other processes.
type Remotes interface {
	// Names are their present names.
	Names() []string
	// Profile writes a profile of one of them.
	Profile(ctx context.Context, w io.Writer, name, kind string, length time.Duration) error
}

// Handler serves the profiles of this process under Path, and those of other processes under Path + "node/NAME/";
// others may be nil.
//
//	/debug/pprof/heap                        of this process
//	/debug/pprof/cpu?seconds=20
//	/debug/pprof/node/n1/cpu?seconds=20      of the node n1
func Handler(others Remotes) http.Handler { return &handler{others} }

type handler struct{ remotes Remotes }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "a profile is read, not written", http.StatusMethodNotAllowed)
		return
	}
	rest, under := strings.CutPrefix(r.URL.Path, Path)
	name := ""
	if of, node := strings.CutPrefix(rest, "node/"); node {
		name, rest, under = splitNodePath(of)
	}
	var names []string
	if h.remotes != nil {
		names = h.remotes.Names()
	}
	switch {
	case !under, name != "" && !slices.Contains(names, name):
		http.NotFound(w, r)
	case rest == "" && name == "":
		writeIndex(w, names)
	default:
		h.profile(w, r, name, canonicalKind(rest))
	}
}

// splitNodePath splits NAME/KIND.
func splitNodePath(of string) (name, kind string, ok bool) {
	name, kind, ok = strings.Cut(of, "/")
	return name, kind, ok && name != "" && kind != ""
}

// canonicalKind also accepts the name by which go tool pprof requests a cpu profile.
func canonicalKind(word string) string {
	if word == "profile" {
		return kindCPU
	}
	return word
}

func (h *handler) profile(w http.ResponseWriter, r *http.Request, name, kind string) {
	var length time.Duration
	if s := r.URL.Query().Get("seconds"); s != "" {
		var err error
		if length, err = time.ParseDuration(s + "s"); err != nil {
			http.Error(w, fmt.Sprintf("%q is no number of seconds", s), http.StatusBadRequest)
			return
		}
	}
	if err := checkRequest(kind, length); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &lazyWriter{w: w, name: fileName(name, kind)}
	var err error
	if name == "" {
		err = WriteProfile(r.Context(), out, kind, length)
	} else {
		err = h.remotes.Profile(r.Context(), out, name, kind, length)
	}
	switch {
	case err == nil:
	case out.headerWritten:
		panic(http.ErrAbortHandler) // cuts the connection, so that the client does not keep half a profile
	case errors.Is(err, context.Canceled):
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// fileName is the file name of a downloaded profile.
func fileName(name, kind string) string {
	if name == "" {
		name = "control"
	}
	if kind == kindTrace {
		return name + ".trace"
	}
	return name + "." + kind + ".pprof"
}

// lazyWriter writes the header with the first byte of the profile: until then the handler may send an error instead.
type lazyWriter struct {
	w             http.ResponseWriter
	name          string
	headerWritten bool
}

func (l *lazyWriter) Write(b []byte) (int, error) {
	if !l.headerWritten {
		l.headerWritten = true
		l.w.Header().Set("Content-Type", "application/octet-stream")
		l.w.Header().Set("X-Content-Type-Options", "nosniff")
		l.w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", l.name))
	}
	return l.w.Write(b)
}

var indexPage = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Profiles</title>
<h1>Profiles</h1>
<p>For <code>go tool pprof</code>, the trace for <code>go tool trace</code>. cpu and trace take ?seconds=,
{{.Seconds}} by default.</p>
{{range .Of}}<h2>{{.Name}}</h2><p>{{$of := .}}{{range $.Kinds}}<a href="{{$of.At}}{{.}}">{{.}}</a> {{end}}</p>
{{end}}</html>
`))

func writeIndex(w http.ResponseWriter, names []string) {
	type of struct{ Name, At string }
	all := []of{{"control", Path}}
	for _, n := range names {
		all = append(all, of{n, Path + "node/" + n + "/"})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = indexPage.Execute(w, struct { // a client that has left misses nothing
		Seconds float64
		Kinds   []string
		Of      []of
	}{defaultLength.Seconds(), profileKinds(), all})
}
