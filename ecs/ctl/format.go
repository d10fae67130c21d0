package ctl

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// table writes rows in columns, two blanks apart.
type table struct {
	w   io.Writer
	buf bytes.Buffer
	t   *tabwriter.Writer
}

func newTable(w io.Writer) *table {
	t := &table{w: w}
	t.t = tabwriter.NewWriter(&t.buf, 0, 0, 2, ' ', 0)
	return t
}

// row writes cells, each with a tab after it: tabwriter aligns terminated cells only.
func (t *table) row(cells ...string) {
	for _, c := range cells {
		fmt.Fprint(t.t, stripControlChars(c), "\t")
	}
	fmt.Fprintln(t.t)
}

// end writes the table, without blanks at the ends of lines.
func (t *table) end() error {
	if err := t.t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(t.buf.String()) {
		if _, err := fmt.Fprintln(t.w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// stripControlChars replaces control characters, so that a foreign text cannot control the terminal or break a table.
func stripControlChars(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// formatTime formats a time: UTC, to the second.
func formatTime(t *timestamppb.Timestamp) string {
	if !isSet(t) {
		return "–"
	}
	return t.AsTime().UTC().Format(time.DateTime + "Z")
}

func roleName(r ecsv1.Role) string {
	if r == ecsv1.Role_ROLE_UNSPECIFIED {
		return "of no role"
	}
	return strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_"))
}

func ownerText(o *ecsv1.Owner) string {
	if o.GetName() == "" {
		return "nobody"
	}
	s := fmt.Sprintf("%s (%s)", o.GetName(), roleName(o.GetRole()))
	if o.GetSince() != nil {
		s += " since " + formatTime(o.GetSince())
	}
	return s
}

func writeOwner(w io.Writer, o *ecsv1.Owner) error {
	_, err := fmt.Fprintln(w, "control is with", stripControlChars(ownerText(o)))
	return err
}

func causeText(c *ecsv1.Cause) string {
	if c == nil {
		return ""
	}
	s := fmt.Sprintf("%s: %s", c.GetComponent(), c.GetWhat())
	if c.GetEvidence() != "" {
		s += " (" + c.GetEvidence() + ")"
	}
	return s
}

// writeStatus writes the status of the partition, then the tree of components.
func writeStatus(w io.Writer, st *ecsv1.PartitionStatus) error {
	t := newTable(w)
	root := st.GetRoot()
	t.row("state", stateText(root)+" since "+formatTime(st.GetSince()))
	switch {
	case st.GetRun() == 0:
		t.row("run", "none on record")
	case root.GetState() == "Running" || root.GetState() == "Paused" || root.GetInBetween() != "":
		t.row("run", fmt.Sprint(st.GetRun()))
	default:
		t.row("run", fmt.Sprintf("%d was the last", st.GetRun()))
	}
	t.row("control", "is with "+ownerText(st.GetOwner())+"; you are "+ownerText(st.GetYou()))
	t.row("allowed", cmp.Or(strings.Join(st.GetAllowed(), " "), "nothing"))
	hash := "none"
	if st.GetConfigurationHash() != "" {
		hash = fmt.Sprintf("%.12s", st.GetConfigurationHash())
	}
	t.row("configuration", hash+"; version of the control "+st.GetVersion())
	if err := t.end(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t = newTable(w)
	t.row("component", "state", "takes part", "role", "if lost", "where", "cause")
	writeComponent(t, root, "", "")
	if err := t.end(); err != nil || len(st.GetSources()) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t = newTable(w)
	t.row("source", "name", "front-end")
	for _, x := range st.GetSources() {
		t.row(fmt.Sprint(x.GetSource()), x.GetName(), x.GetReadiness())
	}
	return t.end()
}

// writeComponent writes a component and those below it; first is the prefix of its own line, rest that of the others.
func writeComponent(t *table, c *ecsv1.Component, first, rest string) {
	participation := "yes"
	switch {
	case c.GetSpare():
		participation = "spare"
	case !c.GetIncluded():
		participation = "excluded"
	}
	where := cmp.Or(c.GetFacts()["address"], c.GetFacts()["host"])
	if node := c.GetFacts()["node"]; where == "" && node != "" {
		where = "on " + node
	}
	if by := c.GetFacts()["substitute"]; by != "" {
		where = "on " + by + ", " + where
		if address := c.GetFacts()["new_process"]; address != "" {
			where += "; " + c.GetName() + " itself is there, at " + address
		}
	}
	t.row(first+c.GetName(), stateText(c), participation, c.GetFacts()["role"], c.GetLoss(), where,
		causeText(c.GetCause()))
	for i, child := range c.GetChildren() {
		if i == len(c.GetChildren())-1 {
			writeComponent(t, child, rest+"└ ", rest+"  ")
		} else {
			writeComponent(t, child, rest+"├ ", rest+"│ ")
		}
	}
}

func stateText(c *ecsv1.Component) string {
	s := c.GetState()
	if c.GetInBetween() != "" {
		s = c.GetInBetween()
	}
	if c.GetInError() && s != "Error" {
		s += ", in Error"
	}
	if c.GetDegraded() {
		s += ", DEGRADED"
	}
	return s
}

func writeResponse(w io.Writer, command string, r *ecsv1.CommandResponse) error {
	text := r.GetMessage()
	if text == "" {
		text = "the partition is in " + r.GetState()
		if r.GetRun() != 0 {
			text += fmt.Sprintf(", run %d", r.GetRun())
		}
		if r.GetAlready() {
			text += ", and was so already"
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", command, stripControlChars(text))
	return err
}

func writePlan(w io.Writer, command string, p *ecsv1.PlanResponse) error {
	for _, r := range p.GetRefusals() {
		if _, err := fmt.Fprintf(w, "%s would be refused: %s\n", command, stripControlChars(r)); err != nil {
			return err
		}
	}
	t := newTable(w)
	for i, s := range p.GetSteps() {
		t.row(fmt.Sprintf("%d.", i+1), s.GetComponent(), s.GetWhat())
	}
	return t.end()
}

func writeCheck(w io.Writer, r *ecsv1.CheckConfigurationResponse) error {
	for _, p := range r.GetProblems() {
		if _, err := fmt.Fprintln(w, stripControlChars(p)); err != nil {
			return err
		}
	}
	if !r.GetOk() {
		return nil
	}
	_, err := fmt.Fprintf(w, "load would take it, hash %s\n", r.GetHash())
	return err
}

func writeAudit(w io.Writer, r *ecsv1.ListAuditResponse) error {
	t := newTable(w)
	t.row("at", "who", "role", "from", "what", "with", "answer")
	for _, e := range r.GetEntries() {
		t.row(formatTime(e.GetAt()), e.GetUser(), roleName(e.GetRole()), e.GetAddress(), e.GetAction(),
			shorten(e.GetArguments()), e.GetAnswer())
	}
	return t.end()
}

// maxShownArguments bounds the arguments in the table, in characters; the JSON has all.
const maxShownArguments = 80

func shorten(s string) string {
	if r := []rune(s); len(r) > maxShownArguments {
		return string(r[:maxShownArguments-1]) + "…"
	}
	return s
}

// writeHelp lists all commands, or explains one.
func writeHelp(w io.Writer, b Vocabulary, about string) error {
	t := newTable(w)
	if about == "" {
		for _, c := range b.commands() {
			t.row(c.GetName(), c.GetHelp())
		}
		return t.end()
	}
	c, steers := b.command(about)
	if _, err := fmt.Fprintf(w, "%s: %s\n", c.GetName(), c.GetHelp()); err != nil {
		return err
	}
	for _, a := range allArguments(c, steers) {
		help := strings.TrimSuffix(a.GetHelp(), ".") + "."
		switch {
		case a.GetRequired():
			help += " Must be given."
		case a.GetDefaultValue() != "":
			help += " Default " + a.GetDefaultValue() + "."
		}
		t.row("  "+a.GetName(), a.GetType(), help)
	}
	if err := t.end(); err != nil || !steers {
		return err
	}
	text := "It is allowed in " + strings.Join(c.GetAllowedIn(), ", ") + "."
	if c.GetVia() != "" {
		text += fmt.Sprintf(" It leads through %s to %s", c.GetVia(), c.GetTo())
		if d := c.GetTimeout().AsDuration(); d > 0 {
			text += fmt.Sprintf(" within %v", d)
		}
		text += "."
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
