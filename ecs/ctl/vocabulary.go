package ctl

import (
	"slices"
	"strings"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Types of arguments that the control does not use: these arguments stay here.
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
	typeCommand  = "command" // the name of one
)

// momentEnd is the end of the run, to wait for.
const momentEnd = "end"

// Names of commands that are carried out here.
const (
	doStatus         = "status"
	doSources        = "sources"
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

// localCommands are the commands that do not steer the partition. Words without a name go to the first argument that
// can take them, so a more particular type stands before a more general one.
var localCommands = []*ecsv1.CommandDescription{
	{Name: doStatus, Help: "Show the state of everything, who has control, and what may be done now."},
	{Name: doSources, Help: "Show what each live source gives, and what is missing of it."},
	{Name: doPlan, Help: "Say who would do what if the command that follows were given now, and what stands against " +
		"it. Nothing is done."},
	{Name: doWait, Help: "Wait for a time, for the end of the run, or for a state, at most so long.",
		Arguments: []*ecsv1.Argument{
			newArgument("for", typeDuration, "How long; with end or a state: at most."),
			newArgument("until", typeMoment, "end, of the run, or a state such as Running."),
		}},
	{Name: doWatch, Help: "Show the live figures, until interrupted.", Arguments: []*ecsv1.Argument{
		newArgument("for", typeDuration, "How long."),
		newArgument("events", typeBool, "What happens, in place of the figures."),
	}},
	{Name: doLogs, Help: "Show what has happened, and go on with what happens, log lines too, until interrupted.",
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
	{Name: doTakeControl, Help: "Take control: be the one whose commands are obeyed.", Arguments: []*ecsv1.Argument{
		newArgument("force", typeBool, "Take it from whoever has it; for administrators."),
	}},
	{Name: doReleaseControl, Help: "Give control back."},
	{Name: doCheck, Help: "Ask whether a configuration would be taken by load, with the nodes that have joined.",
		Arguments: []*ecsv1.Argument{
			newArgument("configuration", typeYAML, "File with the configuration; - is standard input."),
			newArgument("settings", typeSettings, "Changes to it."),
		}},
	{Name: doScan, Help: "Run a list of configurations, one run each in every round, and compare what came of them.",
		Arguments: []*ecsv1.Argument{
			markRequired(newArgument("file", typeFile, "The list, written as a sweep.")),
			newArgument("out", typeFile, "Directory of the results; without one, scan-NAME. Name it: out=DIR."),
			newArgument("rounds", typeUint, "How often each is run; without it, as the file says."),
			newArgument("resume", typeBool, "Continue what is in the directory."),
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
	{Name: doAudit, Help: "List who asked for what and what was answered, newest first; for administrators.",
		Arguments: []*ecsv1.Argument{
			withDefault(newArgument("limit", typeUint, "How many, at most."), "20"),
		}},
	{Name: doHelp, Help: "List the commands, or explain one.", Arguments: []*ecsv1.Argument{newArgument("about",
		typeCommand,
		"The command.")}},
}

// noWaitArgument is an argument that every command of the partition takes.
var noWaitArgument = newArgument("no-wait", typeBool, "Go on when the command has begun, and do not wait for its end.")

// Vocabulary is what words can mean: the commands of a control, and what its partition has to name.
type Vocabulary struct {
	FSM   *ecsv1.FSM // nil: only what is carried out here
	Nodes []string

	partitionState string // state of the partition, for a prompt
}

// commands lists everything, those of the partition first.
func (b Vocabulary) commands() []*ecsv1.CommandDescription {
	return slices.Concat(b.FSM.GetCommands(), localCommands)
}

// command finds one. What the control names like a command of this package's is the control's.
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

// findState finds a state whose name is written with small or large letters.
func (b Vocabulary) findState(word string) (string, bool) {
	for _, s := range b.FSM.GetStates() {
		if strings.EqualFold(s, word) {
			return s, true
		}
	}
	return "", false
}

// allArguments of a command, with those that all of its kind take.
func allArguments(c *ecsv1.CommandDescription, steers bool) []*ecsv1.Argument {
	if !steers || slices.ContainsFunc(c.GetArguments(),
		func(a *ecsv1.Argument) bool { return a.GetName() == noWaitArgument.GetName() }) {
		return c.GetArguments()
	}
	return append(slices.Clip(c.GetArguments()), noWaitArgument)
}
