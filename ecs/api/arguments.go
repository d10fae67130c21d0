package api

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"ringlet/internal/nodename"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

const (
	// maxWord bounds arguments of one line: names, durations, remarks.
	maxWord = 1 << 10
	// maxText bounds configurations and lists of settings.
	maxText = 512 << 10
)

// checkRequest checks a command and its arguments against the description of the state machine. The error is an
// *ArgumentError.
func checkRequest(fsm *ecsv1.FSM, req *ecsv1.CommandRequest) error {
	commands := fsm.GetCommands()
	i := slices.IndexFunc(commands, func(d *ecsv1.CommandDescription) bool { return d.GetName() == req.GetCommand() })
	if i < 0 {
		names := make([]string, len(commands))
		for j, d := range commands {
			names[j] = d.GetName()
		}
		return &ArgumentError{Name: "command", Why: fmt.Sprintf("%s is no command; the commands are %s",
			quoteShortened(req.GetCommand()), strings.Join(names, ", "))}
	}
	arguments := commands[i].GetArguments()
	for _, name := range slices.Sorted(maps.Keys(req.GetArguments())) {
		j := slices.IndexFunc(arguments, func(a *ecsv1.Argument) bool { return a.GetName() == name })
		if j < 0 {
			return &ArgumentError{Name: argumentPath(name), Why: fmt.Sprintf("%s has no argument %s, %s", req.GetCommand(),
				quoteShortened(name), describeArguments(arguments))}
		}
		if why := typeMismatch(arguments[j].GetType(), req.GetArguments()[name]); why != "" {
			return &ArgumentError{Name: argumentPath(name), Why: why}
		}
	}
	for _, a := range arguments {
		if a.GetRequired() && req.GetArguments()[a.GetName()] == "" {
			return &ArgumentError{Name: argumentPath(a.GetName()), Why: fmt.Sprintf("%s needs it: %s", req.GetCommand(),
				a.GetHelp())}
		}
	}
	return nil
}

// argumentPath is the path of an argument. The name comes from the caller, so an odd one is quoted.
func argumentPath(name string) string { return "arguments." + quoteWord(name) }

// quoteShortened quotes a caller's text, at most 40 bytes of it.
func quoteShortened(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}

func describeArguments(arguments []*ecsv1.Argument) string {
	if len(arguments) == 0 {
		return "it takes none"
	}
	names := make([]string, len(arguments))
	for i, a := range arguments {
		names[i] = a.GetName()
	}
	return "it takes " + strings.Join(names, ", ")
}

// typeMismatch says why a value is not of a type; empty if it is. The empty value is of every type.
func typeMismatch(kind, value string) string {
	most := maxWord
	if kind == "yaml" || kind == "settings" {
		most = maxText
	}
	if len(value) > most {
		return fmt.Sprintf("it has %d bytes, at most %d are allowed", len(value), most)
	}
	if value == "" {
		return ""
	}
	switch kind {
	case "bool":
		if _, err := strconv.ParseBool(value); err != nil {
			return quoteShortened(value) + " is neither true nor false"
		}
	case "duration":
		if d, err := time.ParseDuration(value); err != nil || d < 0 {
			return quoteShortened(value) + " is no duration of 0 or more, such as 30s or 1h5m"
		}
	case "uint":
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return quoteShortened(value) + " is no whole number of 0 or more"
		}
	case "node":
		if certs.CheckName(nodename.ProcessOf(value)) != nil {
			return quoteShortened(value) + " cannot be the name of a node"
		}
	case "yaml":
	case "settings":
		for line := range strings.Lines(value) {
			line = strings.TrimSpace(line)
			if name, _, ok := strings.Cut(line, "="); line != "" && (!ok || strings.TrimSpace(name) == "") {
				return quoteShortened(line) + " is not name=value"
			}
		}
	default: // string
		if strings.ContainsFunc(value, unicode.IsControl) {
			return "it has a control character, such as the end of a line"
		}
	}
	return ""
}

// quoteWord returns a word that could be a name as it is, and anything else in quotes.
func quoteWord(s string) string {
	if certs.CheckName(nodename.ProcessOf(s)) == nil {
		return s
	}
	return quoteShortened(s)
}
