package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"ringlet/builderunit/recording"
	"ringlet/lab/tool"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// readBound is within how long the output of a run is recovered, or read back.
const readBound = 2 * time.Minute

// A reading is what was found of one run in its directories.
type reading struct {
	found    uint64 // events, each once
	problems []string
	without  int // manifests without a verdict
	mended   int // lines in which recover says what it did
}

// read closes what killed processes left, and reads the output of a run back: each directory by `ringlet verify`,
// byte for byte against the generator, and all of them together, since a MEP can be in several.
func (c *cluster) read(ctx context.Context, run uint32, dirs []string) (out reading) {
	var all *recording.Set
	for _, dir := range dirs {
		path := recording.RunDir(dir, run)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		add := func(format string, args ...any) {
			out.problems = append(out.problems, path+": "+fmt.Sprintf(format, args...))
		}
		text, err := c.ringlet(ctx, "recover", path)
		if err != nil {
			add("ringlet recover: %v: %s", err, text)
		}
		if !bytes.Contains(text, []byte("there is nothing to recover")) {
			out.mended += bytes.Count(text, []byte("\n"))
		}
		if v := c.verify(ctx, path, add); v != nil {
			judgeFiles(v, add)
			if !v.Concluded {
				out.without++
			}
		}
		contents, err := recording.Read(ctx, path)
		if err != nil {
			add("%v", err)
			continue
		}
		if all == nil {
			all = recording.NewSet(contents.Set.Packing())
		}
		all.Union(contents.Set)
	}
	if all != nil {
		out.found = all.Events()
	}
	return out
}

// verify reads one directory of a run; nil where it could not.
func (c *cluster) verify(ctx context.Context, path string, add func(string, ...any)) *recording.RunVerification {
	v := &recording.Verification{}
	full := !c.env.Pauses // else fragments may be missing, which the generator knows nothing of
	args := []string{"verify", "--json", path}
	if full {
		args = append(args, "--full")
	}
	text, err := c.ringlet(ctx, args...)
	if decode := json.Unmarshal(text, v); decode != nil || len(v.Runs) != 1 {
		add("ringlet verify: %v: %s", err, text)
		return nil
	}
	if full && (!v.Runs[0].DataRead || !v.Runs[0].Compared) {
		add("ringlet verify did not compare the data with what the generator makes")
	}
	return &v.Runs[0]
}

// judgeFiles is what must hold of the files of a run in one directory, when nobody writes there any more and what was
// left open is closed.
func judgeFiles(v *recording.RunVerification, add func(string, ...any)) {
	for _, list := range listsOf(v.Contents) {
		for i := range list.Listed {
			add("%v", &list.Listed[i])
		}
		if list.More > 0 {
			add("and %d more problems", list.More)
		}
	}
	if v.Lost.Events > 0 {
		add("the verdict %s says that %d events are here which are not: %v", v.Verdict, v.Lost.Events, v.Lost.Ranges)
	}
	if v.NeverTriggered > 0 {
		add("%d events are here that were never triggered", v.NeverTriggered)
	}
}

// listsOf are all lists of problems.
func listsOf(c *recording.Contents) []*recording.Problems {
	lists := []*recording.Problems{&c.Problems}
	if c.Merged != nil {
		lists = append(lists, &c.Merged.Problems)
	}
	for i := range c.Builders {
		for j := range c.Builders[i].Segments {
			lists = append(lists, &c.Builders[i].Segments[j].Problems)
		}
	}
	return lists
}

// judgeFound holds what is in all directories of a run against what its record says, which was completed when all nodes
// were back.
func judgeFound(r planned, run *ecsv1.Run, f reading) (problems []string) {
	add := func(format string, args ...any) {
		who := fmt.Sprintf("run %d (%s): ", run.GetNumber(), verdict(run))
		problems = append(problems, who+fmt.Sprintf(format, args...))
	}
	good := run.GetVerdict() == ecsv1.Verdict_VERDICT_GOOD
	switch built := run.GetEventsBuilt(); {
	case good && f.found != built:
		add("%d events are reported as built, %d are in the output", built, f.found)
	case f.found < built && (good || r.Policy.Durability != "memory" || balanced(run)):
		add("%d events are reported as built, only %d are in the output", built, f.found)
	}
	reported, _ := figuresOf(run) // judgeRecord complains
	if f.found > reported.Triggered {
		add("%d events were triggered, %d are in the output", reported.Triggered, f.found)
	}
	if f.found != reported.Recorded.Events {
		add("the record says that %d events are in the output, and %d are", reported.Recorded.Events, f.found)
	}
	if len(run.GetUnread()) > 0 {
		add("the output of %s was never read, though all nodes are back", strings.Join(run.GetUnread(), ", "))
	}
	if f.without > 0 {
		add("%d manifests have no verdict", f.without)
	}
	return append(problems, f.problems...)
}

// balanced says whether the record claims that nothing is missing.
func balanced(run *ecsv1.Run) bool {
	for _, a := range run.GetAccounts() {
		if !a.GetOk() {
			return false
		}
	}
	return len(run.GetAccounts()) > 0
}

// figures are some of a report.
type figures struct {
	Triggered  uint64 `json:"events_triggered"`
	Built      uint64 `json:"events_built"`
	Incomplete uint64 `json:"events_incomplete"`
	Discarded  uint64 `json:"events_discarded"`
	Rejected   uint64 `json:"events_rejected"`
	Abandoned  uint64 `json:"events_abandoned"`
	Recorded   struct {
		Events uint64 `json:"events"`
	} `json:"recorded"`
	Losses    []lost `json:"losses"`
	Decisions *struct {
		First   uint64 `json:"first"`
		Decided uint64 `json:"decided"`
		Lost    bool   `json:"lost"`
	} `json:"decisions"`
}

// lost is what a run has lost of somebody.
type lost struct {
	Of   string `json:"of"`
	Unit string `json:"unit"`
}

func figuresOf(run *ecsv1.Run) (out figures, err error) {
	err = json.Unmarshal([]byte(run.GetReportJson()), &out)
	return out, err
}

// ringlet runs a command of the program to its end, and returns what it prints.
func (c *cluster) ringlet(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	return tool.Command{
		Program: c.exe,
		Args:    args,
		Dir:     c.dir,
		End:     endTime,
	}.Run(ctx)
}
