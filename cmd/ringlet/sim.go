package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"ringlet/lab/page"
	"ringlet/node/config"
	"ringlet/sim"
	"ringlet/sim/documents/figures"
	"ringlet/sim/documents/model"
	"ringlet/sim/study"
)

type simCmd struct {
	Run     simRunCmd     `cmd:"" default:"withargs" help:"Play one model: a file names it and its parameters."`
	Figures simFiguresCmd `cmd:"" help:"Play the figures of the founding documents (docs/sources.md), and say how near the models come."`
	Models  simModelsCmd  `cmd:"" help:"List the models."`
}

type simRunCmd struct {
	File  string `arg:"" help:"YAML file: the model, its parameters, and what is expected, if anything is."`
	Seed  uint64 `default:"0" help:"Seed of what is random; 0 = as the file says."`
	Trace string `placeholder:"FILE" help:"Write what happens for ui.perfetto.dev, at most a million events of it."`
	JSON  bool   `name:"json" help:"Print one JSON object."`
}

// maxTrace bounds the events in a trace: Perfetto opens some 100 MB at once.
const maxTrace = 1_000_000

// Run simulates the file's model. Ctrl-C ends it with the results so far.
func (c *simRunCmd) Run(ctx context.Context, to streams) error {
	s, err := study.Load(c.File)
	if err != nil {
		return &exit{exitUsage, err}
	}
	bar := newLine(to.err, true)
	env := study.Env{
		Seed:    c.Seed,
		Details: &study.SimDetails{},
		OnProgress: func(now sim.Time, executed uint64) {
			bar.print("%v simulated, %d events", now, executed)
		},
	}
	var trace bytes.Buffer
	if c.Trace != "" {
		env.Trace = sim.NewTrace(&trace, maxTrace)
	}
	out, err := s.Run(ctx, model.All(), env)
	bar.end()
	if err != nil {
		var invalid *config.InvalidError
		if errors.As(err, &invalid) {
			return &exit{exitUsage, err}
		}
		return err
	}
	if c.Trace != "" {
		if err := c.save(to, env.Trace, &trace); err != nil {
			return err
		}
	}
	return figures.WriteOne(to.out, s, out, ctx.Err() != nil, c.JSON)
}

func (c *simRunCmd) save(to streams, t *sim.Trace, text *bytes.Buffer) error {
	dropped, err := t.Close()
	if err != nil {
		return err
	}
	if dropped > 0 {
		fmt.Fprintf(to.err, "sim: the trace holds the first %d events; %d more were left out\n", maxTrace, dropped)
	}
	return page.Save(c.Trace, text.Bytes())
}

type simFiguresCmd struct {
	ID       []string `arg:"" optional:"" help:"Figures such as F45. Default: all."`
	Headline bool     `help:"Only the 24 headline figures."`
	Quick    bool     `help:"Without those that take more than some seconds."`
	JSON     bool     `name:"json" help:"Print one JSON array."`
	Page     string   `placeholder:"FILE" help:"Write a page with the documents' plots, too, as one file of HTML."`
	Workers  int      `default:"0" help:"Figures at a time; 0 = as many as there are cores."`
}

// Run simulates the figures. A figure that no longer holds is no error of the command: the table shows it.
func (c *simFiguresCmd) Run(ctx context.Context, to streams) error {
	all, err := figures.All()
	if err != nil {
		return err
	}
	studies, err := figures.Pick(all, c.ID, c.Headline, c.Quick)
	if err != nil {
		return &exit{exitUsage, err}
	}
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	bar, done := newLine(to.err, true), 0
	answers := figures.Run(ctx, studies, model.All(), c.Workers, func(a *figures.Answer) {
		done++
		bar.show(a.Study.ID+" "+a.Verdict, done, len(studies))
	})
	bar.end()
	if c.Page != "" {
		var html bytes.Buffer
		if err := figures.WritePage(&html, answers); err != nil {
			return err
		}
		if err := page.Save(c.Page, html.Bytes()); err != nil {
			return err
		}
	}
	write := figures.WriteText
	if c.JSON {
		write = figures.WriteJSON
	}
	if err := write(to.out, answers); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("sim: interrupted; the table has the figures that were played")
	}
	for i := range answers {
		if answers[i].Err != nil {
			return fmt.Errorf("sim: %s could not be played: %w", answers[i].Study.ID, answers[i].Err)
		}
	}
	return nil
}

type simModelsCmd struct{}

// Run lists the models.
func (simModelsCmd) Run(to streams) error { return writeModels(to.out) }

func writeModels(w io.Writer) error {
	for _, m := range model.All() {
		if _, err := fmt.Fprintf(w, "%-16s %s\n", m.Name, m.Help); err != nil {
			return err
		}
	}
	return nil
}
