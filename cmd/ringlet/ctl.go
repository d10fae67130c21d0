package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"ringlet/ecs/ctl"
	"ringlet/node/certs"
)

type ctlCmd struct {
	Words []string `arg:"" optional:"" name:"command" help:"Commands with their arguments, one after the other; help lists them. Without any: read them from the terminal, or from standard input."`
	visitor
	Clear bool `name:"clear" help:"The argument clear of the command registers."`
	JSON  bool `name:"json" help:"Print JSON, one object per line."`
}

// visitor are the flags that name a control and its user.
type visitor struct {
	Control string `default:"127.0.0.1:7947" env:"RINGLET_CONTROL" placeholder:"HOST:PORT" help:"Where the API of the control is."`
	Certs   string `env:"RINGLET_CERTS" placeholder:"DIR" help:"Directory with the user's certificate and the CA's: ringlet certs makes it."`
	User    string `env:"RINGLET_USER" placeholder:"NAME" help:"Who you are, as in the certificate."`
}

// Run carries out commands of the run control.
func (c *ctlCmd) Run(ctx context.Context, to streams) error {
	if c.Clear {
		c.Words = append(c.Words, "clear")
	}
	s, err := c.session(to, c.JSON)
	if err != nil && ctl.IsHelp(c.Words) {
		return ctl.HelpWithoutControl(to.out, to.err, err, c.Words)
	}
	if err == nil {
		defer func() { _ = s.Close() }()
		err = c.converse(ctx, s)
	}
	if err == nil {
		return nil
	}
	ctl.WriteError(to.err, c.JSON, err)
	return &exit{code: ctl.ExitCode(err)}
}

// session opens a session with the control; json is for the commands of ringlet ctl.
func (c *visitor) session(to streams, json bool) (*ctl.Session, error) {
	if c.Certs == "" || c.User == "" {
		return nil, &ctl.Error{ExitCode: ctl.ExitUsage,
			Why: "who are you? Give --certs DIR and --user NAME, or set RINGLET_CERTS and RINGLET_USER. ringlet certs makes " +
				"keys for users"}
	}
	id, err := certs.Load(c.Certs, c.User)
	if err != nil {
		return nil, &ctl.Error{ExitCode: ctl.ExitUsage, Why: fmt.Sprintf("the keys of %s cannot be used: %v", c.User, err),
			Err: err}
	}
	return ctl.Dial(ctl.Config{
		Address:       c.Control,
		Identity:      id,
		Version:       version,
		In:            os.Stdin,
		Out:           to.out,
		Err:           to.err,
		JSON:          json,
		OutIsTerminal: isTerminal(to.out),
	})
}

func (c *ctlCmd) converse(ctx context.Context, s *ctl.Session) error {
	switch {
	case len(c.Words) > 0:
		return s.RunBatch(ctx, c.Words)
	case !isTerminal(os.Stdin):
		return s.RunScript(ctx, os.Stdin)
	}
	// Ctrl-C ends the command under way, not the session.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	ctx, end := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer end()
	fd := int(os.Stdin.Fd())
	return s.RunInteractive(ctx, ctl.Terminal{
		In:         os.Stdin,
		Out:        os.Stdout,
		Interrupts: interrupts,
		Size:       func() (int, int, error) { return term.GetSize(fd) },
		MakeRaw: func() (func(), error) {
			was, err := term.MakeRaw(fd)
			return func() { _ = term.Restore(fd, was) }, err
		},
	})
}
