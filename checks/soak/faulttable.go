package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlet/recording"
)

// The table of faults makes one run for each row: it strikes one or two processes or hosts, and measures how long the
// others stood still, what is missing in the files, and when the struck were back.

// Times of a row.
const (
	usualTime  = 2 * time.Second         // in which the usual gaps are measured, before the fault
	afterTime  = 1500 * time.Millisecond // that the run goes on when everything is over
	awayTime   = 4 * time.Second         // that the run goes on without what does not come back
	firstBuilt = 60 * time.Second        // until every builder unit has written something
	reportTime = 3 * time.Second         // within which a control tells that a process has ended
)

// shortRows are the rows of a short table.
var shortRows = []faultRow{
	{placeRun, "shift", happenKill, roleFolded},
	{placeRun, "free", happenStop1, roleFolded},
}

// runFaults makes the table. An error says why it could not go on; wrong rows are failures of the tally.
func (s *soak) runFaults(ctx context.Context) error {
	rows := slices.DeleteFunc(faultRows(s.env.Network && s.env.Mounts), func(r faultRow) bool {
		return s.flags.shortRuns && !slices.Contains(shortRows, r) || !r.isNamed(s.flags.rows)
	})
	if len(rows) == 0 {
		return fmt.Errorf("-rows: no row has the words %q", s.flags.rows)
	}
	stages := map[faultPlace]faultStage{}
	defer func() {
		for _, st := range stages {
			_ = st.close() // after an error; else they are closed
		}
	}()
	fmt.Print(tableHead())
	for i, r := range rows {
		st := stages[r.Place]
		if st == nil {
			var err error
			if st, err = s.newStage(ctx, r.Place, i); err != nil {
				return err
			}
			stages[r.Place] = st
		}
		c := r.stage()
		m, err := measure(ctx, st, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			m.Problems = append(m.Problems, errText(err))
		}
		m.Problems = append(m.Problems, s.takeProblems()...)
		wrong := c.judge(&m)
		fmt.Print(c.line(&m, wrong))
		s.tally.Rows++
		s.tally.Trials++
		if len(wrong) > 0 {
			s.keepRow(i, c, st, wrong)
		}
		if err != nil {
			delete(stages, r.Place)
			_ = st.close() // what is wrong was told
		}
	}
	for place, st := range stages {
		delete(stages, place)
		if err := st.close(); err != nil {
			s.tally.Failures = append(s.tally.Failures, failure{Index: -1, Problems: []string{err.Error()}})
		}
	}
	return nil
}

// isNamed says whether the text of a row has all words, which are separated by commas.
func (r faultRow) isNamed(words string) bool {
	for _, w := range strings.Split(words, ",") {
		if !strings.Contains(r.String(), strings.TrimSpace(w)) {
			return false
		}
	}
	return true
}

// newStage makes the processes of a place; those of `ringlet run` are made for each row.
func (s *soak) newStage(ctx context.Context, place faultPlace, i int) (faultStage, error) {
	dir := filepath.Join(s.dir.path, fmt.Sprintf("%s-%02d", place, i))
	if place == placeRun {
		return newRunStage(s.env, s.exe, dir)
	}
	c, err := newCluster(ctx, s.env, s.exe, dir, s.addProblem)
	return &hostsStage{c: c}, err
}

// keepRow keeps the logs of a wrong row, and notes the failure.
func (s *soak) keepRow(i int, c faultCase, st faultStage, wrong []string) {
	kept := filepath.Join(s.dir.path, fmt.Sprintf("row-%02d", i))
	err := os.MkdirAll(kept, 0o755)
	logs := []string{st.controlLog()}
	if more, globErr := filepath.Glob(filepath.Join(filepath.Dir(st.controlLog()), "n*.log")); globErr == nil {
		logs = append(logs, more...)
	}
	for _, log := range logs {
		text, readErr := os.ReadFile(log)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(kept, filepath.Base(log)), text, 0o644))
	}
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	s.tally.Failures = append(s.tally.Failures, failure{
		Index:         i,
		Problems:      append([]string{c.faultRow.String()}, wrong...),
		KeptDir:       kept,
		RepeatCommand: fmt.Sprintf("bin/soak -faults -rows %q", strings.ReplaceAll(c.faultRow.String(), ": ", ", ")),
	})
}

// measure makes the run of a case.
func measure(ctx context.Context, st faultStage, c faultCase) (m measuredRow, err error) {
	if err := st.begin(ctx, c); err != nil {
		return m, fmt.Errorf("before the run: %s", errText(err))
	}
	var dirs []string
	for _, dir := range st.outputs() {
		dirs = append(dirs, recording.RunDir(dir, st.runNumber()))
	}
	w := watchProgress(dirs)
	struck, ended, err := inflictAll(ctx, st, c, w)
	if struck.IsZero() {
		w.close()
		return m, err
	}
	report, finishErr := st.finish(ctx)
	w.close()
	err = errors.Join(err, finishErr)
	m.gaps(c, w, struck, ended)
	m.Sentence = sentence(st.controlLog(), struck, c.Victims)
	if finishErr != nil {
		return m, err
	}
	var f figures
	if err := json.Unmarshal([]byte(report), &f); err != nil {
		return m, err
	}
	m.Verdict, m.End, m.Triggered = f.Verdict, f.End, f.Triggered
	for _, l := range f.Lacking {
		m.Lacking = append(m.Lacking, l.Node)
		if n := len(l.Outages); n > 0 {
			m.Back = m.Back && l.Outages[n-1].ReturnMEP != nil
			m.ReturnTime = max(m.ReturnTime, l.Outages[n-1].ReturnedAt.Sub(struck))
		}
	}
	found := st.reader().readRun(ctx, st.runNumber(), st.outputs())
	m.Found, m.Missing = found.foundEvents, found.missing
	m.Problems = append(m.Problems, found.problems...)
	return m, err
}

// inflictAll waits until the run goes on, strikes, and waits until the struck are back, or cannot be expected.
func inflictAll(ctx context.Context, st faultStage, c faultCase, w *progressWatch) (struck, ended time.Time,
	err error) {
	err = pollUntil(ctx, "each builder unit wrote something", firstBuilt, func(ctx context.Context) (bool, error) {
		for i := range c.Layout.bus {
			if len(w.growths(i)) == 0 {
				return false, fmt.Errorf("builder unit %d has not", i)
			}
		}
		return true, nil
	})
	if err != nil {
		return struck, ended, err
	}
	sleep(ctx, usualTime)
	struck = time.Now()
	for _, v := range c.Victims {
		err = errors.Join(err, st.inflict(c.What, v))
	}
	if c.What.duration() > 0 {
		sleep(ctx, c.What.duration())
		for _, v := range c.Victims {
			err = errors.Join(err, st.relent(c.What, v))
		}
	}
	if right := c.right(); right.ReturnTime == 0 {
		sleep(ctx, awayTime)
	} else {
		sleep(ctx, reportTime-time.Since(struck))
		_ = pollUntil(ctx, "the struck were back", right.ReturnTime, func(ctx context.Context) (bool, error) {
			return c.areBack(st, w, struck) || st.isOver(ctx), nil
		})
		sleep(ctx, afterTime)
	}
	return struck, time.Now(), err
}

// areBack says whether all that was struck works again.
func (c faultCase) areBack(st faultStage, w *progressWatch, struck time.Time) bool {
	now := time.Now()
	for _, bu := range c.victimBuilders() {
		times := w.growths(bu)
		_, _, open := longestGap(times, struck, now)
		if open || now.Sub(times[len(times)-1]) > time.Second {
			return false
		}
	}
	lost, back := returns(st.controlLog(), struck, c.Victims)
	return lost == back
}

// gaps fills in how long the others stood still, and until when the builder units that were struck did.
func (m *measuredRow) gaps(c faultCase, w *progressWatch, struck, ended time.Time) {
	for _, bu := range c.otherBuilders() {
		times := w.growths(bu)
		if len(times) == 0 {
			continue
		}
		gap, _, _ := longestGap(times, struck, ended)
		m.Standstill = max(m.Standstill, gap)
		gap, _, _ = longestGap(times, times[0], struck)
		m.Usual = max(m.Usual, gap)
	}
	m.Back = true
	for _, bu := range c.victimBuilders() {
		_, at, open := longestGap(w.growths(bu), struck, ended)
		m.ReturnTime, m.Back = max(m.ReturnTime, at.Sub(struck)), m.Back && !open
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// A logLine is a warning or an error in the log of a control.
type logLine struct {
	at              time.Time
	msg, what, node string
}

// warningsSince reads the warnings and errors of a log since a time.
func warningsSince(log string, since time.Time) (out []logLine) {
	f, err := os.Open(log)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		fields := textFields(in.Text())
		at, err := time.Parse(time.RFC3339Nano, fields["time"])
		// The log has milliseconds.
		if err == nil && !at.Before(since.Truncate(time.Millisecond)) && fields["level"] != "INFO" {
			out = append(out, logLine{at, fields["msg"], fields["what"], fields["node"]})
		}
	}
	return out
}

// textFields splits a line of slog's text form.
func textFields(line string) map[string]string {
	out := map[string]string{}
	for line != "" {
		key, rest, ok := strings.Cut(line, "=")
		if !ok {
			break
		}
		value, err := strconv.QuotedPrefix(rest)
		if err == nil {
			line = strings.TrimPrefix(rest[len(value):], " ")
			value, _ = strconv.Unquote(value) // QuotedPrefix has checked it
		} else {
			value, line, _ = strings.Cut(rest, " ")
		}
		out[key] = value
	}
	return out
}

// sentence is what the control said first about a victim.
func sentence(log string, since time.Time, victims []string) string {
	for _, l := range warningsSince(log, since) {
		text := cmp.Or(l.what, l.msg)
		if l.msg == "two nodes under one name" || strings.HasPrefix(l.msg, "a node is back") ||
			strings.HasPrefix(l.msg, "a step failed") {
			continue
		}
		if slices.ContainsFunc(victims, func(v string) bool { return strings.Contains(text, v) }) {
			return text
		}
	}
	return ""
}

// returns counts the victims that the run went on without, and those that came back.
func returns(log string, since time.Time, victims []string) (lost, back int) {
	for _, l := range warningsSince(log, since) {
		for _, v := range victims {
			if strings.HasPrefix(l.msg, "the run goes on without "+v) {
				lost++
			}
		}
		if strings.HasPrefix(l.msg, "a node is back") && slices.Contains(victims, l.node) {
			back++
		}
	}
	return lost, back
}

// columns are the titles of the table.
var columns = []string{
	"place", "discipline", "what", "who", "others stood still, ms (usually)", "events lost", "fragments missing, of",
	"whole again after, s", "verdict", "right", "the control's sentence",
}

// tableHead is the head of the table, in Markdown.
func tableHead() string {
	return "\n" + tableLine(columns) + strings.Repeat("|---", len(columns)) + "|\n"
}

// tableLine is a line of the table.
func tableLine(cells []string) string {
	out := "|"
	for _, c := range cells {
		out += " " + strings.NewReplacer("|", "/", "\n", " ").Replace(c) + " |"
	}
	return out + "\n"
}

// line is a row of the table.
func (c faultCase) line(m *measuredRow, wrong []string) string {
	missing, returned, right := "0", "–", "yes"
	if m.Missing > 0 || len(m.Lacking) > 0 {
		missing = fmt.Sprintf("%d of %s", m.Missing, strings.Join(m.Lacking, ", "))
	}
	switch {
	case !m.Back:
		returned = "never"
	case m.ReturnTime > 0:
		returned = fmt.Sprintf("%.1f", m.ReturnTime.Seconds())
	}
	if len(wrong) > 0 {
		right = "NO: " + strings.Join(wrong, "; ")
	}
	cells := []string{
		string(c.Place), c.Discipline, string(c.What), string(c.Who),
		fmt.Sprintf("%d (%d)", m.Standstill.Milliseconds(), m.Usual.Milliseconds()),
		strconv.FormatUint(m.Triggered-min(m.Triggered, m.Found), 10),
		missing, returned, m.Verdict, right, cmp.Or(m.Sentence, "–"),
	}
	return tableLine(cells)
}
