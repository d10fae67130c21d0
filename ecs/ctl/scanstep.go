package ctl

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// scanStep is a value of slow data that a scan brings about before its runs.
type scanStep struct {
	name, value string
	command     string // of the shell; gets the value as $1
	within      *float64
	long, most  time.Duration
}

// maxScanSteps bounds the values of a scan.
const maxScanSteps = 1000

// String is NAME=VALUE; empty for a scan without steps.
func (p *scanStep) String() string {
	if p.name == "" {
		return ""
	}
	return p.name + "=" + p.value
}

// scanSteps reads the arguments of scan that step a value; without them, one empty step.
func scanSteps(st *step) ([]scanStep, error) {
	text := st.Args["step"]
	if text == "" {
		return []scanStep{{}}, nil
	}
	within, err := parseNumber(st, "within")
	if err != nil {
		return nil, err
	}
	name, list, _ := strings.Cut(text, ":")
	var steps []scanStep
	for value := range strings.SplitSeq(list, ",") {
		if _, err := strconv.ParseFloat(value, 64); err != nil || name == "" {
			return nil, &usageError{doScan, fmt.Sprintf("step: %q is not NAME:VALUE,VALUE,… with numbers", text)}
		}
		steps = append(steps, scanStep{
			name:    name,
			value:   value,
			command: st.Args["by"],
			within:  within,
			long:    st.duration("for"),
			most:    st.duration("most"),
		})
	}
	switch {
	case len(steps) > maxScanSteps:
		return nil, &usageError{doScan, fmt.Sprintf("step: %d values, and at most %d are stepped through", len(steps),
			maxScanSteps)}
	case st.Args["by"] == "":
		return nil, &usageError{doScan, "step needs by=COMMAND, which gets each value as $1"}
	}
	return steps, nil
}

// bringAbout runs the command of a step, and waits until its value is steady.
func (s *Session) bringAbout(ctx context.Context, p *scanStep) error {
	if p.name == "" {
		return nil
	}
	fmt.Fprintf(s.cfg.Err, "scan: %v\n", p)
	limited, cancel := context.WithTimeout(ctx, p.most)
	defer cancel()
	c := exec.CommandContext(limited, "sh", "-c", p.command, "sh", p.value)
	c.Stdout, c.Stderr = s.cfg.Err, s.cfg.Err
	c.WaitDelay = time.Second
	if err := c.Run(); err != nil {
		return &Error{Command: doScan, ExitCode: exitFault, Err: err,
			Why: fmt.Sprintf("%v: the command %q failed: %v", p, p.command, err)}
	}
	if p.within == nil {
		return nil
	}
	target, _ := strconv.ParseFloat(p.value, 64) // scanSteps has checked it
	return s.awaitSteady(ctx, p.name, &steadiness{target: &target, within: *p.within, long: p.long}, p.most)
}
