package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ringlet/lab/page"
	"ringlet/node/config"
	"ringlet/sim/predict"
)

type predictCmd struct {
	File      string   `arg:"" help:"YAML file: a cluster and a configuration; with --judge, a list of results."`
	Nodes     []int    `placeholder:"N,..." help:"A line for each of these numbers of folded nodes, 2 to 1000."`
	Costs     string   `placeholder:"FILE" help:"What software costs, from --calibrate. Default: as published, of a machine with two cores."`
	Calibrate []string `placeholder:"RESULTS,..." help:"Fit the costs to results.csv of ringlet bench sweep, measured on the file's cluster."`
	Judge     bool     `help:"Say how far the predictions are off the results that the file lists."`
	Out       string   `placeholder:"FILE" help:"Write the costs of --calibrate there."`
	JSON      bool     `name:"json" help:"Print one JSON array."`
	Page      string   `placeholder:"FILE" help:"Write a page with curves, too, as one file of HTML."`
}

// Run predicts, calibrates or judges.
func (c *predictCmd) Run(ctx context.Context, to streams) error {
	if c.Judge && len(c.Calibrate) > 0 {
		return &exit{exitUsage, errors.New("--judge and --calibrate are two questions: ask one")}
	}
	for _, n := range c.Nodes {
		if n < 2 || n > predict.MostNodes {
			return &exit{exitUsage, fmt.Errorf("--nodes: %d is not between 2 and %d", n, predict.MostNodes)}
		}
	}
	err := c.answer(ctx, to)
	var invalid *config.InvalidError
	var missing *fs.PathError
	if errors.As(err, &invalid) || errors.As(err, &missing) {
		return &exit{exitUsage, err}
	}
	return err
}

func (c *predictCmd) answer(ctx context.Context, to streams) error {
	if c.Judge {
		s, err := predict.LoadStudy(c.File)
		if err != nil {
			return err
		}
		return c.judge(ctx, to, s)
	}
	f, err := predict.Load(c.File)
	if err != nil {
		return err
	}
	if len(c.Calibrate) > 0 {
		return c.calibrate(ctx, to, f.Of(c.Calibrate))
	}
	return c.predict(ctx, to, f)
}

// costs are those of the file, or the published ones.
func (c *predictCmd) costs(to streams) (predict.Costs, error) {
	if c.Costs != "" {
		return predict.LoadCosts(c.Costs)
	}
	fmt.Fprintln(to.err, "predict: costs are those of a machine with two cores: calibrate on your hosts")
	return predict.Published()
}

func (c *predictCmd) predict(ctx context.Context, to streams, f *predict.File) error {
	costs, err := c.costs(to)
	if err != nil {
		return err
	}
	if len(c.Nodes) == 0 {
		c.Nodes = []int{0}
	}
	bar := newLine(to.err, true)
	all := []*predict.Prediction{}
	for i, n := range c.Nodes {
		bar.show(fmt.Sprint(n, " nodes"), i, len(c.Nodes))
		p, err := f.Predict(ctx, costs, n)
		if err != nil {
			bar.end()
			return fmt.Errorf("predict: %w", err)
		}
		all = append(all, p)
	}
	bar.end()
	if c.Page != "" {
		var html bytes.Buffer
		if err := errors.Join(f.WritePage(&html, all), page.Save(c.Page, html.Bytes())); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(to.out, all)
	}
	return predict.WriteText(to.out, all)
}

func (c *predictCmd) judge(ctx context.Context, to streams, s *predict.Study) error {
	costs, err := c.costs(to)
	if err != nil {
		return err
	}
	points, err := s.Points(filepath.Dir(c.File))
	if err != nil {
		return err
	}
	judged, err := predict.Judge(ctx, points, costs)
	if err != nil {
		return err
	}
	return predict.WriteErrors(to.out, judged)
}

// calibrate fits the costs to a third of the points, and says how far both thirds are off.
func (c *predictCmd) calibrate(ctx context.Context, to streams, s *predict.Study) error {
	points, err := s.Points(".")
	if err != nil {
		return err
	}
	bar := newLine(to.err, true)
	costs, err := predict.Calibrate(ctx, points, func(step int, rms float64) {
		bar.print("step %d: %.1f %% off", step, 100*rms)
	})
	bar.end()
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	judged, err := predict.Judge(ctx, points, costs)
	if err != nil {
		return err
	}
	if c.Out == "" {
		return costs.Write(to.out, judged)
	}
	var text bytes.Buffer
	if err := errors.Join(costs.Write(&text, judged), page.Save(c.Out, text.Bytes())); err != nil {
		return err
	}
	return predict.WriteErrors(to.out, judged)
}
