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

// printJSON prints one JSON object.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printResult prints a result as a JSON object or as text.
func printResult(w io.Writer, v any, asJSON bool, text func(io.Writer) error) error {
	if asJSON {
		return printJSON(w, v)
	}
	return text(w)
}

// sameSignalTime is the time after the first signal in which further ones count as the same: timeout(1) sends SIGTERM
// to its program and at once to its process group, to which the program belongs, too. A person takes longer to repeat
// it.
const sameSignalTime = 250 * time.Millisecond

// killOnSecondSignal kills the process with the second signal; the first has ended ctx, and the command ends in good
// order. Child processes die with their parent. The caller defers the returned function.
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

// ttyLine is a status line on a terminal; elsewhere it prints nothing.
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

// show rewrites the line with the progress.
func (l *ttyLine) show(what string, done, of int) { l.print("%3d %%  %s", done*100/max(of, 1), what) }

func (l *ttyLine) end() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
}
