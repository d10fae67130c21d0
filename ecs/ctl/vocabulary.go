package ctl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Types of arguments. The control does not use file, moment and command: they are for commands of this package.
const (
	typeBool     = "bool"
	typeDuration = "duration"
	typeUint     = "uint"
	typeNode     = "node"
	typeYAML     = "yaml"
	typeSettings = "settings"
	typeFile     = "file"
	typeText     = "string"
	typeMoment   = "moment"  // end, or a state
	typeCommand  = "command" // name of a command
)

// momentEnd is the moment "end of the run", for wait.
const momentEnd = "end"

// Names of the commands of this package.
const (
	doStatus         = "status"
	doSources        = "sources"
	doValues         = "values"
	doSteady         = "steady"
	doRegisters      = "registers"
	doPlan           = "plan"
	doRuns           = "runs"
	doShowRun        = "show-run"
	doLogs           = "logs"
	doWatch          = "watch"
	doWait           = "wait"
	doTakeControl    = "take-control"
	doReleaseControl = "release-control"
	doCheck          = "check"
	doAudit          = "audit"
	doScan           = "scan"
	doSample         = "sample"
	doHelp           = "help"
)

func newArgument(name, kind, help string) *ecsv1.Argument {
	return &ecsv1.Argument{Name: name, Type: kind, Help: help}
}

func markRequired(a *ecsv1.Argument) *ecsv1.Argument {
	a.Required = true
	return a
}

func withDefault(a *ecsv1.Argument, value string) *ecsv1.Argument {
	a.DefaultValue = value
	return a
}

// localCommands are the commands of this package, which do not steer the partition. A word without a name goes to the
// first argument that can take it, so that arguments of a narrower type must come first.
var localCommands = []*ecsv1.CommandDescription{
	{Name: doStatus, Help: "Show the state of everything, who has control, and what may be done now."},
	{Name: doSources, Help: "Show what each live source gives, and what is missing of it."},
	{Name: doValues, Help: "Show the last value of each name of slow data, those that came last first."},
	{Name: doSteady, Help: "Wait until the values of a name of slow data are steady.", Arguments: []*ecsv1.Argument{
		markRequired(newArgument("name", typeText, "The name.")),
		newArgument("value", typeText, "Near which number; without it, near each other."),
		markRequired(newArgument("within", typeText, "How near. Name it: within=0.5.")),
		withDefault(newArgument("for", typeDuration, "How long all values that come must be so near."), "5s"),
		withDefault(newArgument("most", typeDuration, "How long to wait, at most. Name it: most=2m."), "1m"),
	}},
	{Name: doRegisters, Help: "Show the scheduler's registers: queues with their high-water marks, free slots, counters.",
		Arguments: []*ecsv1.Argument{
			newArgument("clear", typeBool, "Then begin the high-water marks anew; for operators."),
		}},
	{Name: doPlan, Help: "Say what each component would do if the command that follows were given now, or why it would " +
		"be refused. Nothing is done."},
	{Name: doWait, Help: "Wait for a time, for the end of the run, or for a state, with an upper bound.",
		Arguments: []*ecsv1.Argument{
			newArgument("for", typeDuration, "How long; with end or a state: at most."),
			newArgument("until", typeMoment, "end, of the run, or a state such as Running."),
		}},
	{Name: doWatch, Help: "Show the live figures, until interrupted.", Arguments: []*ecsv1.Argument{
		newArgument("for", typeDuration, "How long."),
		newArgument("events", typeBool, "Show events in place of the figures."),
	}},
	{Name: doLogs, Help: "Show past events and log lines, and go on with new ones, until interrupted.",
		Arguments: []*ecsv1.Argument{
			newArgument("for", typeDuration, "How long."),
		}},
	{Name: doRuns, Help: "List the runs on record, newest first.", Arguments: []*ecsv1.Argument{
		withDefault(newArgument("limit", typeUint, "How many, at most."), "20"),
		newArgument("before", typeUint, "Only runs before this one; name it: before=120."),
	}},
	{Name: doShowRun, Help: "Show the whole record of a run.", Arguments: []*ecsv1.Argument{
		newArgument("number", typeUint, "Its number; without one, the newest."),
	}},
	{Name: doTakeControl, Help: "Take control: only your commands are obeyed then.", Arguments: []*ecsv1.Argument{
		newArgument("force", typeBool, "Take it from the user who has it; for administrators."),
	}},
	{Name: doReleaseControl, Help: "Give control back."},
	{Name: doCheck, Help: "Ask whether a configuration would be taken by load, with the nodes that have joined.",
		Arguments: []*ecsv1.Argument{
			newArgument("configuration", typeYAML, "File with the configuration; - is standard input."),
			newArgument("settings", typeSettings, "Changes to it."),
		}},
	{Name: doScan, Help: "Run a list of configurations, one run each in every round, and compare the results.",
		Arguments: []*ecsv1.Argument{
			markRequired(newArgument("file", typeFile, "The list, written as a sweep.")),
			newArgument("out", typeFile, "Directory of the results; without one, scan-NAME. Name it: out=DIR."),
			newArgument("rounds", typeUint, "How often each is run; without it, as the file says."),
			newArgument("resume", typeBool, "Continue what is in the directory."),
			newArgument("step", typeText, "Make all runs at each value of slow data: step=hv.tof:1400,1450,1500."),
			newArgument("by", typeText, "Command of the shell that sets a value, which it gets as $1."),
			newArgument("within", typeText, "Then wait until the value is steady: how near. Name it: within=2."),
			withDefault(newArgument("for", typeDuration, "How long all values that come must be so near. Name it."), "5s"),
			withDefault(newArgument("most", typeDuration, "How long the command, and then the wait, may take. Name it."), "1m"),
		}},
	{Name: doSample, Help: "Read counters of a node many times a second in a run: traffic and stalls, of links and " +
		"segments.", Arguments: []*ecsv1.Argument{
		withDefault(newArgument("every", typeDuration, "Time between two samples, from 1ms to 10s."), "1ms"),
		withDefault(newArgument("samples", typeUint, "End after so many, up to 2048; 0: go on until the run is over."),
			"1000"),
		newArgument("each", typeBool, "A column for each link and segment, in place of their sums."),
		newArgument("csv", typeBool, "Write a line for each sample, with its values, in place of a summary."),
		markRequired(newArgument("node", typeNode, "The node.")),
		newArgument("counters", typeText, "Names of counters, with commas between; without, traffic and stalls."),
	}},
	{Name: doAudit, Help: "List the users' requests and the answers, newest first; for administrators.",
		Arguments: []*ecsv1.Argument{
			withDefault(newArgument("limit", typeUint, "How many, at most."), "20"),
		}},
	{Name: doHelp, Help: "List the commands, or explain one.", Arguments: []*ecsv1.Argument{newArgument("about",
		typeCommand,
		"The command.")}},
}

// noWaitArgument is an argument of every command of the partition.
var noWaitArgument = newArgument("no-wait", typeBool, "Go on when the command has begun, and do not wait for its end.")

// Vocabulary is the words that a line may have: the commands of a control and of this package, and names of nodes.
type Vocabulary struct {
	FSM   *ecsv1.FSM // nil: only the commands of this package
	Nodes []string

	partitionState string // for a prompt
}

// commands lists all commands, those of the partition first.
func (b Vocabulary) commands() []*ecsv1.CommandDescription {
	return slices.Concat(b.FSM.GetCommands(), localCommands)
}

// command finds a command by name; steers says that it is the control's. A command of the control takes precedence over
// one of this package with the same name.
func (b Vocabulary) command(name string) (c *ecsv1.CommandDescription, steers bool) {
	for _, c := range b.FSM.GetCommands() {
		if c.GetName() == name {
			return c, true
		}
	}
	for _, c := range localCommands {
		if c.GetName() == name {
			return c, false
		}
	}
	return nil, false
}

func (b Vocabulary) commandNames() []string {
	var out []string
	for _, c := range b.commands() {
		if !slices.Contains(out, c.GetName()) {
			out = append(out, c.GetName())
		}
	}
	return out
}

// findState finds a state by its name in any case.
func (b Vocabulary) findState(word string) (string, bool) {
	for _, s := range b.FSM.GetStates() {
		if strings.EqualFold(s, word) {
			return s, true
		}
	}
	return "", false
}

// allArguments are the arguments of a command, with noWaitArgument if it steers the partition.
func allArguments(c *ecsv1.CommandDescription, steers bool) []*ecsv1.Argument {
	if !steers || slices.ContainsFunc(c.GetArguments(),
		func(a *ecsv1.Argument) bool { return a.GetName() == noWaitArgument.GetName() }) {
		return c.GetArguments()
	}
	return append(slices.Clip(c.GetArguments()), noWaitArgument)
}

// step is one command with its arguments.
type step struct {
	Command         *ecsv1.CommandDescription
	SteersPartition bool // a command of the control
	PlanOnly        bool // ask for its plan only
	Args            map[string]string
}

// A usageError refuses words that the parser does not know, or arguments that a command does not take.
type usageError struct {
	Command string // empty: the error belongs to no command
	Why     string
}

func (e *usageError) Error() string {
	if e.Command == "" {
		return e.Why
	}
	return e.Command + ": " + e.Why
}

// parse parses words as a row of commands. The name of a command begins a step; the words after it, up to the next name
// of a command, are its arguments: a value, name=value, the name alone of an argument of type bool, or a setting if the
// command takes settings.
func (b Vocabulary) parse(words []string) ([]step, error) {
	var steps []step
	plan := false
	for i := 0; i < len(words); {
		c, steers := b.command(words[i])
		switch {
		case c == nil:
			return nil, b.unknownWordError(words[i], steps)
		case plan && !steers:
			return nil, &usageError{doPlan, words[i] + " does not steer the partition: there is nothing to plan"}
		case !steers && c.GetName() == doPlan:
			plan = true
			i++
			continue
		}
		s := step{
			Command:         c,
			SteersPartition: steers,
			PlanOnly:        plan,
			Args:            map[string]string{},
		}
		plan = false
		for i++; i < len(words); i++ {
			if other, _ := b.command(words[i]); other != nil && !(c.GetName() == doHelp && len(s.Args) == 0) {
				break
			}
			assigned, err := b.assign(&s, words[i])
			if err != nil {
				return nil, err
			}
			if !assigned {
				return nil, b.unknownWordError(words[i], append(steps, s))
			}
		}
		for _, a := range allArguments(c, steers) {
			if _, present := s.Args[a.GetName()]; a.GetRequired() && !present {
				return nil, &usageError{c.GetName(), fmt.Sprintf("needs %s: %s", a.GetName(), helpClause(a.GetHelp()))}
			}
		}
		steps = append(steps, s)
	}
	if plan {
		return nil, &usageError{doPlan, "needs a command that is to be planned"}
	}
	return steps, nil
}

// helpClause is a help text for the middle of another sentence.
func helpClause(help string) string {
	if help == "" {
		return help
	}
	return strings.ToLower(help[:1]) + strings.TrimSuffix(help[1:], ".")
}

// unknownWordError refuses a word, and suggests the nearest command or the arguments of the last one.
func (b Vocabulary) unknownWordError(word string, before []step) error {
	near := config.Nearest(word, b.commandNames())
	if len(before) == 0 {
		return &usageError{"", fmt.Sprintf("there is no command %q; the nearest one is %q", word, near)}
	}
	c := before[len(before)-1]
	var takes []string
	for _, a := range allArguments(c.Command, c.SteersPartition) {
		takes = append(takes, a.GetName())
	}
	what := "takes no arguments"
	if len(takes) > 0 {
		what = "takes " + strings.Join(takes, ", ")
	}
	perhaps := ""
	if near != "" && word != "" && near[0] == word[0] { // probably a mistyped command
		perhaps = fmt.Sprintf(" (the nearest one is %q)", near)
	}
	return &usageError{c.Command.GetName(), fmt.Sprintf("%s; %q is none of these, and no command%s", what, word, perhaps)}
}

// assign gives a word to an argument of the step; it returns false if no argument takes it.
func (b Vocabulary) assign(s *step, word string) (bool, error) {
	all := allArguments(s.Command, s.SteersPartition)
	name, value, named := strings.Cut(word, "=")
	for _, a := range all {
		switch {
		case a.GetName() != name:
		case named:
			return true, b.setArgument(s, a, value)
		case a.GetType() == typeBool:
			return true, b.setArgument(s, a, "true")
		}
	}
	for _, a := range all {
		_, present := s.Args[a.GetName()]
		switch {
		case a.GetType() == typeSettings && named && name != "":
			return true, b.setArgument(s, a, word)
		case named || present || a.GetType() == typeBool || a.GetType() == typeSettings:
		case b.isValidValue(a, word):
			return true, b.setArgument(s, a, word)
		}
	}
	return false, nil
}

// setArgument sets an argument. Settings are collected, a line each.
func (b Vocabulary) setArgument(s *step, a *ecsv1.Argument, value string) error {
	was, present := s.Args[a.GetName()]
	switch {
	case a.GetType() == typeSettings && present:
		value = was + "\n" + value
	case present:
		return &usageError{s.Command.GetName(), a.GetName() + " is given twice"}
	case !b.isValidValue(a, value):
		return &usageError{s.Command.GetName(), fmt.Sprintf("%s: %q is not %s", a.GetName(), value,
			expectedByType[a.GetType()])}
	}
	if state, is := b.findState(value); is && a.GetType() == typeMoment {
		value = state
	}
	s.Args[a.GetName()] = value
	return nil
}

// expectedByType describes the values of a type, for errors.
var expectedByType = map[string]string{
	typeBool:     "true or false",
	typeDuration: "a time such as 10s or 1m30s",
	typeUint:     "a whole number that is not negative",
	typeMoment:   "end or a state",
	typeCommand:  "a command",
	typeNode:     "a node's name",
}

// isValidValue says whether an argument can have a value. Values of unknown types are texts.
func (b Vocabulary) isValidValue(a *ecsv1.Argument, value string) bool {
	switch a.GetType() {
	case typeBool:
		return value == "true" || value == "false"
	case typeDuration:
		d, err := time.ParseDuration(value)
		return err == nil && d >= 0
	case typeUint:
		_, err := strconv.ParseUint(value, 10, 32)
		return err == nil
	case typeMoment:
		_, is := b.findState(value)
		return is || value == momentEnd
	case typeCommand:
		c, _ := b.command(value)
		return c != nil
	case typeNode:
		return value != ""
	}
	return true
}

// duration is an argument of type duration, or its default; 0 if it has none.
func (s *step) duration(name string) time.Duration {
	d, _ := time.ParseDuration(s.argument(name)) // parse has checked it
	return d
}

// argument is an argument, or its default.
func (s *step) argument(name string) string {
	if text := s.Args[name]; text != "" {
		return text
	}
	for _, a := range s.Command.GetArguments() {
		if a.GetName() == name {
			return a.GetDefaultValue()
		}
	}
	return ""
}

// number is an argument of type uint, or its default.
func (s *step) number(name string) uint32 {
	n, _ := strconv.ParseUint(s.argument(name), 10, 32) // parse has checked it; empty is 0
	return uint32(n)
}
