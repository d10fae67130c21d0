package config

import (
	"fmt"
	"strings"
)

// Problem is one problem of a configuration.
type Problem struct {
	File   string // "" if the value did not come from a file
	Line   int    // 1 is the first; 0 = unknown
	Key    string // the flag or YAML key; "" if the problem is about the whole
	Reason string // a sentence
}

func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	return b.String() + p.Reason
}

// InvalidError lists all problems of a configuration, in the order of the fields or of the file.
type InvalidError struct {
	Problems []Problem // never empty
}

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d problems with the configuration:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// problems collects problems.
type problems []Problem

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, Reason: fmt.Sprintf(format, args...)})
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &InvalidError{Problems: p}
}
