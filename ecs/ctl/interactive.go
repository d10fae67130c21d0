package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Terminal is the user's terminal.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// MakeRaw sets raw mode until restore is called; Size is in characters. Either may be nil.
	MakeRaw func() (restore func(), err error)
	Size    func() (width, height int, err error)
	// Interrupts delivers the signals of Ctrl-C while a command is carried out and keys are not read.
	Interrupts <-chan os.Signal
}

// promptTimeout bounds how long a prompt waits for the state that it shows.
const promptTimeout = time.Second

// RunInteractive reads lines and carries them out, until exit or the end of input. It writes the error of a command
// that fails, and goes on.
func (s *Session) RunInteractive(ctx context.Context, tty Terminal) error {
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&interruptReader{in: tty.In}, tty.Out}, "")
	past := &history{}
	t.History = past
	for ctx.Err() == nil {
		vocab, prompt := s.prompt(ctx)
		t.SetPrompt(prompt)
		t.AutoCompleteCallback = completer(vocab, t)
		if tty.Size != nil {
			if width, height, err := tty.Size(); err == nil && width > 0 && height > 0 {
				_ = t.SetSize(width, height) // without the size, long lines are drawn less well
			}
		}
		line, err := readLine(t, tty)
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(tty.Out)
			return nil
		case err != nil && !errors.Is(err, term.ErrPasteIndicator):
			return err
		}
		words, err := SplitWords(line)
		if err != nil {
			WriteError(s.cfg.Err, s.cfg.JSON, &usageError{"", err.Error()})
			continue
		}
		if len(words) == 1 && (words[0] == "exit" || words[0] == "quit") {
			return nil
		}
		if len(words) > 0 {
			if err := s.runTyped(ctx, tty, t, past, words); err != nil {
				WriteError(s.cfg.Err, s.cfg.JSON, err)
			}
		}
	}
	return nil
}

// readLine reads a line, in raw mode.
func readLine(t *term.Terminal, tty Terminal) (string, error) {
	if tty.MakeRaw != nil {
		restore, err := tty.MakeRaw()
		if err != nil {
			return "", err
		}
		defer restore()
	}
	return t.ReadLine()
}

// runTyped carries out a line until it is interrupted. It asks for confirmation before destructive commands.
func (s *Session) runTyped(ctx context.Context, tty Terminal, t *term.Terminal, past *history, words []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	vocab, err := s.LoadVocabulary(ctx)
	if err != nil {
		return err
	}
	steps, err := vocab.parse(words)
	if err != nil {
		return err
	}
	for i, st := range steps {
		if !st.Command.GetDestructive() || st.PlanOnly || i == 0 && s.isRefused(ctx, &st) {
			continue
		}
		t.AutoCompleteCallback = nil
		t.SetPrompt(fmt.Sprintf("%s: %s Do it? [y/N] ", st.Command.GetName(), st.Command.GetHelp()))
		past.suspended = true
		answer, err := readLine(t, tty)
		past.suspended = false
		if err != nil || !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
			return &usageError{st.Command.GetName(), "not done"}
		}
	}
	for len(tty.Interrupts) > 0 {
		<-tty.Interrupts // left from an earlier command
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-tty.Interrupts:
			cancel()
		case <-done:
		}
	}()
	return s.perform(ctx, vocab, steps)
}

// isRefused says whether the control would refuse a command now, so that no confirmation is needed.
func (s *Session) isRefused(ctx context.Context, st *step) bool {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	plan, err := s.client.Plan(ctx, &ecsv1.CommandRequest{Command: st.Command.GetName(), Arguments: st.Args})
	return err == nil && !plan.GetPossible()
}

// history keeps the lines that were entered, without the answers to confirmations.
type history struct {
	lines     []string // oldest first
	suspended bool
}

const maxHistory = 500

// Add keeps a line, unless it is empty or equal to the last one.
func (h *history) Add(line string) {
	if n := len(h.lines); h.suspended || strings.TrimSpace(line) == "" || n > 0 && h.lines[n-1] == line {
		return
	}
	h.lines = append(h.lines[max(0, len(h.lines)+1-maxHistory):], line)
}

// Len is the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the last one, 1 the one before it.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// prompt returns a prompt with the state of the partition, and the vocabulary.
func (s *Session) prompt(ctx context.Context) (Vocabulary, string) {
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	vocab, err := s.LoadVocabulary(ctx)
	if err != nil {
		return Vocabulary{}, "ringlet (no control)> "
	}
	return vocab, "ringlet " + vocab.partitionState + "> "
}

// completer returns a callback that completes the line when Tab is typed, and lists the choices if there are several.
func completer(b Vocabulary, t *term.Terminal) func(line string, pos int, key rune) (string, int, bool) {
	return func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		longer, choices := b.completeLine(line[:pos])
		if len(choices) > 0 && longer == line[:pos] {
			fmt.Fprintln(t, strings.Join(choices, "  "))
		}
		return longer + line[pos:], len(longer), true
	}
}

// interruptReader makes Ctrl-C clear the line that is being typed. Without it, Terminal.ReadLine would return io.EOF.
type interruptReader struct {
	in      io.Reader
	pending []byte
}

// abandonLineKeys are the keys that go to the end of the line, clear it, and enter it.
var abandonLineKeys = []byte{5, 21, '\r'}

func (c *interruptReader) Read(p []byte) (int, error) {
	if len(c.pending) == 0 {
		buf := make([]byte, max(1, len(p)))
		n, err := c.in.Read(buf)
		if err != nil && n == 0 {
			return 0, err
		}
		for _, b := range buf[:n] {
			if b == 3 {
				c.pending = append(c.pending, abandonLineKeys...)
			} else {
				c.pending = append(c.pending, b)
			}
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}
