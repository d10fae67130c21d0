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

	"ringlet/lab/tool"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/recording"
)

// readTimeout is the most time that a tool may take to recover or read the output of a run.
const readTimeout = 2 * time.Minute

// A runReading is what was found in the directories of one run.
type runReading struct {
	foundEvents    uint64 // events in the files, each counted once
	problems       []string
	missing        uint64 // fragments that lack in these events, and that the verdict names
	withoutVerdict int    // manifests without a verdict
	recoveredLines int    // lines of output of recover
}

// readRun closes the segments of killed processes, and reads the output of a run: each directory by `ringlet verify`,
// which compares each byte with the generator, and all directories together, since a MEP can be in several.
func (c *cluster) readRun(ctx context.Context, run uint32, dirs []string) (out runReading) {
	var all *recording.MEPSet
	for _, dir := range dirs {
		path := recording.RunDir(dir, run)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		add := func(format string, args ...any) {
			out.problems = append(out.problems, path+": "+fmt.Sprintf(format, args...))
		}
		text, err := c.runRinglet(ctx, "recover", path)
		if err != nil {
			add("ringlet recover: %v: %s", err, text)
		}
		if !bytes.Contains(text, []byte("there is nothing to recover")) {
			out.recoveredLines += bytes.Count(text, []byte("\n"))
		}
		if v := c.verify(ctx, path, add); v != nil {
			judgeFiles(v, add)
			out.missing += v.MissingFragments
			if !v.Concluded {
				out.withoutVerdict++
			}
		}
		contents, err := recording.Read(ctx, path)
		if err != nil {
			add("%v", err)
			continue
		}
		if all == nil {
			all = recording.NewMEPSet(contents.MEPSet.Packing())
		}
		all.Union(contents.MEPSet)
	}
	if all != nil {
		out.foundEvents = all.Events()
	}
	return out
}

// verify reads one directory of a run; nil if it could not.
func (c *cluster) verify(ctx context.Context, path string, add func(string, ...any)) *recording.RunVerification {
	v := &recording.Verification{}
	full := !c.env.Pauses // after a pause, fragments may be missing that the generator would make
	args := []string{"verify", "--json", path}
	if full {
		args = append(args, "--full")
	}
	text, err := c.runRinglet(ctx, args...)
	if decode := json.Unmarshal(text, v); decode != nil || len(v.Runs) != 1 {
		add("ringlet verify: %v: %s", err, text)
		return nil
	}
	if full && (!v.Runs[0].DataRead || !v.Runs[0].ContentCompared) {
		add("ringlet verify did not compare the data with what the generator makes")
	}
	return &v.Runs[0]
}

// judgeFiles checks the files of a run in one directory, after all writers have ended and recover has closed the open
// segments.
func judgeFiles(v *recording.RunVerification, add func(string, ...any)) {
	for _, list := range listsOf(v.Contents) {
		for i := range list.Listed {
			add("%v", &list.Listed[i])
		}
		if list.More > 0 {
			add("and %d more problems", list.More)
		}
	}
	if v.UnnamedMissingEvents.EventCount > 0 {
		add("the verdict %s says that %d events are here which are not: %v", v.Verdict, v.UnnamedMissingEvents.EventCount,
			v.UnnamedMissingEvents.Ranges)
	}
	if v.EventsNeverTriggered > 0 {
		add("%d events are here that were never triggered", v.EventsNeverTriggered)
	}
}

// listsOf returns all lists of problems of a recording.
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

// judgeFound compares the files in all directories of a run with its record, which the control has completed when all
// nodes were back.
func judgeFound(r plannedRun, run *ecsv1.Run, f runReading) (problems []string) {
	add := func(format string, args ...any) {
		who := fmt.Sprintf("run %d (%s): ", run.GetNumber(), verdict(run))
		problems = append(problems, who+fmt.Sprintf(format, args...))
	}
	good := run.GetVerdict() == ecsv1.Verdict_VERDICT_GOOD
	switch built := run.GetEventsBuilt(); {
	case good && f.foundEvents != built:
		add("%d events are reported as built, %d are in the output", built, f.foundEvents)
	case f.foundEvents < built && (good || r.Policy.Durability != "memory" || claimsBalance(run)):
		add("%d events are reported as built, only %d are in the output", built, f.foundEvents)
	}
	reported, _ := parseFigures(run) // judgeRecord reports the error
	if f.foundEvents > reported.Triggered {
		add("%d events were triggered, %d are in the output", reported.Triggered, f.foundEvents)
	}
	if f.foundEvents != reported.Recorded.Events {
		add("the record says that %d events are in the output, and %d are", reported.Recorded.Events, f.foundEvents)
	}
	if len(run.GetUnread()) > 0 {
		add("the output of %s was never read, though all nodes are back", strings.Join(run.GetUnread(), ", "))
	}
	if f.withoutVerdict > 0 {
		add("%d manifests have no verdict", f.withoutVerdict)
	}
	return append(problems, f.problems...)
}

// claimsBalance says whether all accounts of the record balance.
func claimsBalance(run *ecsv1.Run) bool {
	for _, a := range run.GetAccounts() {
		if !a.GetOk() {
			return false
		}
	}
	return len(run.GetAccounts()) > 0
}

// figures are some fields of a report.
type figures struct {
	Triggered uint64 `json:"events_triggered"`
	Built     uint64 `json:"events_built"`
	Discarded uint64 `json:"events_discarded"`
	Rejected  uint64 `json:"events_rejected"`
	Abandoned uint64 `json:"events_abandoned"`
	Recorded  struct {
		Events uint64 `json:"events"`
	} `json:"recorded"`
	Losses  []lossEntry `json:"losses"`
	Verdict string      `json:"verdict"`
	End     string      `json:"end_cause"`
	Lacking []struct {
		Node    string             `json:"node"`
		Outages []recording.Outage `json:"gone"`
	} `json:"lacking"`
	Decisions *struct {
		First   uint64 `json:"first"`
		Decided uint64 `json:"decided"`
		Lost    bool   `json:"lost"`
	} `json:"decisions"`
}

// lossEntry is one loss of a run.
type lossEntry struct {
	Of   string `json:"of"`
	Unit string `json:"unit"`
}

func parseFigures(run *ecsv1.Run) (out figures, err error) {
	err = json.Unmarshal([]byte(run.GetReportJson()), &out)
	return out, err
}

// runRinglet runs a command of the program to its end, and returns its output.
func (c *cluster) runRinglet(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return tool.Command{
		Program:    c.exe,
		Args:       args,
		Dir:        c.dir,
		EndTimeout: processEndTimeout,
	}.Run(ctx)
}
