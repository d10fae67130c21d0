package ctl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// step is one command with its arguments, ready to be given.
type step struct {
	Command         *ecsv1.CommandDescription
	SteersPartition bool // it is the control's
	PlanOnly        bool // only to be planned
	Args            map[string]string
}

// A usageError is words that mean nothing, or what a command does not take.
type usageError struct {
	Command string // "" where it is none
	Why     string
}

func (e *usageError) Error() string {
	if e.Command == "" {
		return e.Why
	}
	return e.Command + ": " + e.Why
}

// parse reads words as a row of commands. The name of a command begins one; words behind it that are no name of a
// command are its arguments: a value, name=value, the bare name of what is true or false, or a setting where the
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

// helpClause is help in the middle of another sentence.
func helpClause(help string) string {
	if help == "" {
		return help
	}
	return strings.ToLower(help[:1]) + strings.TrimSuffix(help[1:], ".")
}

// unknownWordError says what a word could have been.
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
	if near != "" && word != "" && near[0] == word[0] { // a slip of the pen, more likely than a strange argument
		perhaps = fmt.Sprintf(" (the nearest one is %q)", near)
	}
	return &usageError{c.Command.GetName(), fmt.Sprintf("%s; %q is none of it, and no command%s", what, word, perhaps)}
}

// assign puts a word where it belongs, and says whether it belongs here.
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

// expectedByType says what an argument of a type is to be.
var expectedByType = map[string]string{
	typeBool:     "true or false",
	typeDuration: "a time such as 10s or 1m30s",
	typeUint:     "a whole number that is not negative",
	typeMoment:   "end or a state",
	typeCommand:  "a command",
	typeNode:     "a node's name",
}

// isValidValue says whether a value can be that of an argument. Types that are not known here are text.
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

// duration of a step that has one.
func (s *step) duration(name string) time.Duration {
	d, _ := time.ParseDuration(s.Args[name]) // Parse has read it; not given is none
	return d
}

// number of a step that has one, or what is in effect without.
func (s *step) number(name string) uint32 {
	text := s.Args[name]
	if text == "" {
		for _, a := range s.Command.GetArguments() {
			if a.GetName() == name {
				text = a.GetDefaultValue()
			}
		}
	}
	n, _ := strconv.ParseUint(text, 10, 32) // Parse has read it; not given is 0
	return uint32(n)
}
