package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// printJSON prints one object, for programs.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printResult prints an object for programs, or a text for people.
func printResult(w io.Writer, v any, asJSON bool, text func(io.Writer) error) error {
	if asJSON {
		return printJSON(w, v)
	}
	return text(w)
}

// sameSignalTime is how long after the first signal others are that one, told again: timeout(1) sends SIGTERM to its
// program and at once to its process group, to which the program belongs, too. A person takes longer than this.
const sameSignalTime = 250 * time.Millisecond

// killOnSecondSignal lets the first signal, which has ended ctx, end what is under way in good order, and the next the
// process; all others die with it. The caller defers what it returns.
func killOnSecondSignal(ctx context.Context) (stop func()) {
	over := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(sameSignalTime):
			signal.Reset(os.Interrupt, syscall.SIGTERM)
		case <-over:
		}
	})
	return func() {
		forget()
		close(over)
	}
}

// ttyLine is one line of a terminal that tells how something stands; elsewhere it is nothing.
type ttyLine struct {
	w       io.Writer
	enabled bool
	shown   bool
}

func newLine(w io.Writer, wanted bool) ttyLine {
	return ttyLine{w: w, enabled: wanted && isTerminal(w)}
}

// print rewrites the line.
func (l *ttyLine) print(format string, args ...any) {
	if l.enabled {
		fmt.Fprintf(l.w, "\r\x1b[K"+format, args...)
		l.shown = true
	}
}

// show rewrites the line with how much is done.
func (l *ttyLine) show(what string, done, of int) { l.print("%3d %%  %s", done*100/max(of, 1), what) }

func (l *ttyLine) end() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
}
