package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// attackTally is the content of the summary of a hostile run.
type attackTally struct {
	attackCounts map[string]int
	answers      map[string]map[string]int // by attack: how often each outcome came back
	verdict      string
	safeText     string
	memoryPeaks  []string
}

// add counts an attack.
func (a *attackTally) add(name string, came map[string]int) {
	a.attackCounts[name]++
	if a.answers[name] == nil {
		a.answers[name] = map[string]int{}
	}
	for what, n := range came {
		a.answers[name][what] += n
	}
}

func (a *attackTally) write(line func(name, format string, args ...any)) {
	head := "attacks"
	for _, name := range slices.Sorted(maps.Keys(a.attackCounts)) {
		line(head, "%-38s %4d times; %s", name, a.attackCounts[name], summed(a.answers[name]))
		head = ""
	}
	line("run", "%s", a.verdict)
	line("safe", "%s", a.safeText)
	line("memory", "at most, MiB: %s", strings.Join(a.memoryPeaks, ", "))
}

// sourceFragments are the fragments of one source that were found in the output.
type sourceFragments struct {
	found      []bool
	duplicates uint64
	wrong      uint64
}

// record records a fragment that was found; right says whether its bytes are as sent.
func (l *sourceFragments) record(number uint64, right bool) {
	switch {
	case !right || number >= uint64(len(l.found)):
		l.wrong++
	case l.found[number]:
		l.duplicates++
	default:
		l.found[number] = true
	}
}

// judgeAcked counts the fragments below acked that were not given up, and reports those that are not in the output.
func (l *sourceFragments) judgeAcked(who string, acked uint64,
	givenUp func(uint64) bool) (safe uint64, problems []string) {
	missing := uint64(0)
	for n := range min(acked, uint64(len(l.found))) {
		if givenUp(n) {
			continue
		}
		safe++
		if !l.found[n] {
			missing++
		}
	}
	if missing > 0 {
		problems = append(problems, fmt.Sprintf("%s was told that %d fragments are safe which are not in the output", who,
			missing))
	}
	if l.wrong > 0 || l.duplicates > 0 {
		problems = append(problems, fmt.Sprintf("%s: %d fragments in the output are none that it sent, %d are there twice",
			who, l.wrong, l.duplicates))
	}
	return safe, problems
}

// bytes draws n random bytes.
func (d *dice) bytes(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(d.Uint64())
	}
	return out
}

// fork makes dice for another goroutine.
func (d *dice) fork() *dice { return &dice{rand.New(rand.NewPCG(d.Uint64(), d.Uint64()))} }
