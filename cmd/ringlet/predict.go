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
	Carriers  string   `placeholder:"FILE" help:"What the carriers cost, from ringlet bench carriers --json on your hosts; in place of those of the costs."`
	Calibrate []string `placeholder:"RESULTS,..." help:"Fit the costs to results.csv of ringlet bench sweep, measured on the file's cluster."`
	Judge     bool     `help:"Print predicted beside measured, for the results that the file lists, and how large the error is."`
	Out       string   `placeholder:"FILE" help:"Write the costs of --calibrate there; with --judge, fit them first, to the results that the file marks."`
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
	err := c.predictOrJudge(ctx, to)
	var invalid *config.InvalidError
	var missing *fs.PathError
	var report *predict.ReportError
	if errors.As(err, &invalid) || errors.As(err, &missing) || errors.As(err, &report) {
		return &exit{exitUsage, err}
	}
	return err
}

func (c *predictCmd) predictOrJudge(ctx context.Context, to streams) error {
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
		points, err := f.WithResults(c.Calibrate).Points(".")
		if err != nil {
			return err
		}
		return c.calibrate(ctx, to, points)
	}
	return c.predict(ctx, to, f)
}

// costs are the costs of the file, or the published ones, with the carriers of a report, and their description.
func (c *predictCmd) costs(to streams) (*predict.Calibration, error) {
	load := predict.Published
	if c.Costs != "" {
		load = func() (*predict.Calibration, error) { return predict.LoadCosts(c.Costs) }
	}
	costs, err := load()
	if err == nil && c.Carriers != "" {
		err = costs.LoadCarriers(c.Carriers)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(to.err, "predict: %v\n", costs)
	if c.Costs == "" {
		fmt.Fprintln(to.err, "predict: nobody has measured these on your hosts: --calibrate and --carriers do")
	}
	return costs, nil
}

func (c *predictCmd) predict(ctx context.Context, to streams, f *predict.File) error {
	costs, err := c.costs(to)
	if err != nil {
		return err
	}
	if len(c.Nodes) == 0 {
		c.Nodes = []int{0}
	}
	if warning := f.Warning(); warning != "" {
		fmt.Fprintln(to.err, "predict: do not believe this: "+warning)
	}
	bar := newLine(to.err, true)
	all := []*predict.Prediction{}
	for i, n := range c.Nodes {
		bar.show(fmt.Sprint(n, " nodes"), i, len(c.Nodes))
		p, err := f.Predict(ctx, costs.Costs, n)
		if err != nil {
			bar.end()
			return fmt.Errorf("predict: %w", err)
		}
		all = append(all, p)
	}
	bar.end()
	if c.Page != "" {
		var html bytes.Buffer
		if err := errors.Join(f.WritePage(&html, all, costs), page.Save(c.Page, html.Bytes())); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(to.out, all)
	}
	return predict.WriteText(to.out, all)
}

// judge prints predicted beside measured results of a study. With --out it fits the costs first.
func (c *predictCmd) judge(ctx context.Context, to streams, s *predict.Study) error {
	points, err := s.Points(filepath.Dir(c.File))
	if err != nil {
		return err
	}
	if c.Out != "" {
		return c.calibrate(ctx, to, points)
	}
	costs, err := c.costs(to)
	if err != nil {
		return err
	}
	judged, err := predict.Judge(ctx, points, costs.Costs)
	if err != nil {
		return err
	}
	return c.show(to, judged)
}

func (c *predictCmd) show(to streams, judged []predict.JudgedPoint) error {
	if c.JSON {
		return printJSON(to.out, judged)
	}
	return predict.WriteErrors(to.out, judged)
}

// calibrate fits the costs to the points marked for it, and prints the errors of all points.
func (c *predictCmd) calibrate(ctx context.Context, to streams, points []predict.Point) error {
	known := &predict.Calibration{}
	if c.Carriers != "" {
		if err := known.LoadCarriers(c.Carriers); err != nil {
			return err
		}
	}
	bar := newLine(to.err, true)
	costs, err := predict.Calibrate(ctx, points, known, func(step int, rms float64) {
		bar.print("step %d: %.1f %% off", step, 100*rms)
	})
	bar.end()
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	judged, err := predict.Judge(ctx, points, costs.Costs)
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
	return c.show(to, judged)
}
