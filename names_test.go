package ringlet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// goneWords are words of identifiers that meant something in this project alone, or several things, and what is said
// in their place. docs/glossary.md has the terms. A word that ends in * stands for all that begin so.
var goneWords = map[string]string{
	"barer*":       "a carrier's configuration",
	"bear":         "tolerate",
	"bears":        "tolerates",
	"bearing":      "tolerating",
	"believ*":      "accept, trust, or what an ack has confirmed",
	"borne":        "tolerated",
	"breath*":      "yield",
	"calm":         "since the last spurious retransmission",
	"comeback":     "readmission, rejoin, resume",
	"conversation": "session",
	"door":         "mailbox, gateway, listener, limit",
	"doors":        "mailbox, gateway, listener, limit",
	"doubt*":       "suspect, ambiguous",
	"echo":         "ack",
	"echoed":       "acked",
	"echoes":       "acks",
	"halves":       "path, where it is the path of a link",
	"haste":        "spurious retransmissions",
	"hasty":        "spurious retransmissions",
	"hear":         "receive, on an ack",
	"heard":        "received, last report, acked",
	"hearing":      "receiver",
	"hears":        "receives",
	"heed*":        "apply, watch, update",
	"herald*":      "reporter of triggers",
	"house*":       "a host of the scheduler; in tests a farm, a fixture",
	"jam":          "congestion",
	"landed":       "placed, completed, progress",
	"landing":      "progress",
	"lane":         "packet number space, flow, worker, result ring",
	"lanes":        "packet number spaces, flows, workers, result rings",
	"ledger":       "accounts, records, outstanding: the ledger is a file of a recording",
	"meet":         "connect",
	"meets":        "connects",
	"mourn*":       "note that a process has ended",
	"muster*":      "select members",
	"norun":        "pre-run",
	"overlooked":   "lost, in the detection of tail losses",
	"parted":       "done, fragmented, closed",
	"partly":       "nothing completed",
	"patience":     "time-out, PTO",
	"road*":        "route",
	"room":         "space, capacity, budget",
	"rooms":        "space, capacity, budget",
	"settl*":       "what it does: commit, finish, drain, retire, confirm, return",
	"sight*":       "observation",
	"stand":        "pre-grant, state, stall",
	"standing":     "pre-granted, state",
	"stands":       "pre-granted, state",
	"stay":         "keep, remain",
	"stays":        "keeps, remains",
	"story":        "root cause",
	"stray*":       "rejected placement",
	"strike":       "end a run; a sign of a black hole",
	"strikes":      "signs of a black hole",
	"taker*":       "participant, receiver, consumer",
	"tell":         "report, notify, publish, log",
	"talk":         "session",
	"talks":        "session",
	"teller":       "publisher, sender",
	"telling":      "reporting, relevant",
	"tells":        "reports",
	"told":         "reported, published, sent",
	"twin*":        "tail copy",
	"unhouse*":     "stop the host",
	"untold":       "unreported",
	"weigh":        "check the path's MTU",
	"weighed":      "checked",
	"welcome*":     "readmission, acceptance",
	"wing":         "annex",
	"wording":      "plural",
}

// fineWords are the words of goneWords that a package has from elsewhere: a standard, a format, a frozen name, a word
// of its own trade.
var fineWords = map[string][]string{
	"halves":   {"recording", "transport/quic"},                              // of a block; of a packet that went in two
	"echo":     {"sim", "lab/bench"},                                         // packets of SCI; a service
	"echoes":   {"sim"},                                                      // the same
	"lane":     {"event", "internal/crc32c", "internal/assembly"},            // of a sum that is computed in lanes
	"lanes":    {"event", "internal/crc32c", "internal/assembly"},            // the same
	"ledger":   {"builderunit", "ecs/partition", "cmd/ringlet", "recording"}, // the file of a recording
	"patience": {"clients/frontend"},                                         // a name that programs of others use
}

// scarceWords are words that mean one thing each, in the packages that have it. Names of tests, which are sentences,
// may have them anywhere.
var scarceWords = map[string][]string{
	"asked":  {},
	"books":  {},
	"crew":   {},
	"know":   {},
	"knows":  {},
	"let":    {},
	"loaded": {"ecs/partition"}, // a configuration
	"own":    {},                // local, self
	// of a MEP; a file of a conversion; a message's field; a share
	"part":  {"builderunit", "convert", "ecs/partition/fault", "event", "velo/efficiency", "readoutunit", "sim", "source"},
	"parts": {"builderunit", "event", "readoutunit", "sim", "lab/mem", "recording", "source"},
	"seat":  {"node", "readoutunit"}, // in the linear shift
	"seats": {"cmd/ringlet", "lab/topology", "node", "readoutunit", "sim"},
	"slack": {"barrier", "internal/timerslack", "node/config"}, // of phases; of a timer
	"ways":  {},
	"whole": {"builderunit/sink"}, // the bytes of whole sectors
}

// goneNames are functions and methods whose name is one word that needs an object, with the packages in which an
// interface of another module has it.
var goneNames = map[string][]string{
	"ask": {}, "at": {"ecs/ctl"}, "give": {}, "has": {}, "in": {}, "of": {}, "take": {}, // x/term: the history's At
}

// wordsOf takes an identifier apart: newTagRing is new, tag and ring.
func wordsOf(name string) (words []string) {
	letters := []rune(name)
	begin := 0
	for i, r := range letters {
		capital := i > begin && unicode.IsUpper(r) &&
			(!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if capital || r == '_' {
			words = append(words, strings.ToLower(string(letters[begin:i])))
			begin = i
			if r == '_' {
				begin++
			}
		}
	}
	return append(words, strings.ToLower(string(letters[begin:])))
}

// declared calls each for every identifier that a file declares.
func declared(f *ast.File, each func(id *ast.Ident)) {
	all := func(ids []*ast.Ident) {
		for _, id := range ids {
			each(id)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			each(n.Name)
		case *ast.TypeSpec:
			each(n.Name)
		case *ast.ValueSpec:
			all(n.Names)
		case *ast.Field:
			all(n.Names)
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				return true
			}
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok {
					each(id)
				}
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					each(id)
				}
			}
		}
		return true
	})
}

// among tells whether a package is one of these, or below it.
func among(dir string, packages []string) bool {
	return slices.ContainsFunc(packages, func(p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") })
}

// scarceIn says which scarce word an identifier has where it means something else.
func scarceIn(dir, name string) string {
	for _, w := range wordsOf(name) {
		if fine, scarce := scarceWords[w]; scarce && !among(dir, fine) {
			return w
		}
	}
	return ""
}

// goneIn says which words of an identifier are gone, in a package.
func goneIn(dir, name string) (word, instead string) {
	for _, w := range wordsOf(name) {
		for gone, instead := range goneWords {
			stem, open := strings.CutSuffix(gone, "*")
			if w != stem && !(open && strings.HasPrefix(w, stem)) {
				continue
			}
			if !among(dir, fineWords[gone]) {
				return w, instead
			}
		}
	}
	return "", ""
}

// TestWordsThatAreGone holds identifiers to the glossary.
func TestWordsThatAreGone(t *testing.T) {
	for _, file := range handWritten(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		declared(f, func(id *ast.Ident) {
			if word, instead := goneIn(path.Dir(file), id.Name); word != "" {
				t.Errorf("%s: %s: the word %q is gone, see docs/glossary.md: %s", fset.Position(id.Pos()), id.Name, word, instead)
			}
		})
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "testkit/") {
			continue
		}
		declared(f, func(id *ast.Ident) {
			if word := scarceIn(path.Dir(file), id.Name); word != "" {
				t.Errorf("%s: %s: %q means something else, see docs/glossary.md", fset.Position(id.Pos()), id.Name, word)
			}
		})
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if fine, gone := goneNames[strings.ToLower(fn.Name.Name)]; gone && !among(path.Dir(file), fine) {
				t.Errorf("%s: %s: a function's name is a verb and its object", fset.Position(fn.Pos()), fn.Name.Name)
			}

		}
	}
}

// TestPlantedWordsAreFound holds that the test above bites.
func TestPlantedWordsAreFound(t *testing.T) {
	const planted = `package planted
type roomy struct { settled int }
func (r roomy) tellAll(heard int) { for untold := range heard { door := untold; _ = door } }
var laneOf, freeRooms int`
	f, err := parser.ParseFile(token.NewFileSet(), "planted.go", planted, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	declared(f, func(id *ast.Ident) {
		if word, _ := goneIn("planted", id.Name); word != "" {
			found = append(found, word)
		}
	})
	if got, want := strings.Join(found, " "), "settled tell heard untold door lane rooms"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if got := scarceIn("transport", "nextPart"); got != "part" {
		t.Errorf("a part in transport: %q", got)
	}
	if got := scarceIn("source", "nextPart"); got != "" {
		t.Errorf("a part in readoutunit: %q", got)
	}
}
