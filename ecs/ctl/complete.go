package ctl

import (
	"slices"
	"strings"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Complete lists the completions of the last word of a line, given the words before it: arguments of the current
// command, and names of commands. After a completion that ends in = or / the word goes on; after others it is complete.
func (b Vocabulary) Complete(before []string, word string) []string {
	var out []string
	add := func(candidates ...string) {
		for _, c := range candidates {
			if strings.HasPrefix(c, word) && !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	c, steers, assigned := b.currentCommand(before)
	if c == nil {
		add(b.commandNames()...)
		return out
	}
	if c.GetName() == doPlan && !steers {
		for _, c := range b.FSM.GetCommands() {
			add(c.GetName())
		}
		return out
	}
	for _, a := range allArguments(c, steers) {
		if a.GetType() == typeSettings {
			for _, key := range config.SettingKeys() {
				add(key + "=")
			}
			continue
		}
		if slices.Contains(assigned, a.GetName()) {
			continue
		}
		values := b.candidateValues(a)
		for _, v := range values {
			if strings.Contains(word, "=") {
				v = a.GetName() + "=" + v
			}
			add(v)
		}
		switch {
		case a.GetType() == typeBool:
			add(a.GetName())
		case len(values) == 0 && a.GetType() != typeYAML && a.GetType() != typeFile:
			add(a.GetName() + "=")
		}
	}
	add(b.commandNames()...)
	return out
}

// currentCommand is the last command in the words, and the names of the arguments that it has already.
func (b Vocabulary) currentCommand(words []string) (c *ecsv1.CommandDescription, steers bool, assigned []string) {
	for i := len(words) - 1; i >= 0; i-- {
		if c, steers = b.command(words[i]); c == nil {
			continue
		}
		s := step{Command: c, SteersPartition: steers, Args: map[string]string{}}
		for _, w := range words[i+1:] {
			if _, err := b.assign(&s, w); err != nil {
				break // parse reports the error
			}
		}
		for name := range s.Args {
			assigned = append(assigned, name)
		}
		return c, steers, assigned
	}
	return nil, false, nil
}

// candidateValues are the values that an argument can have, if they can be listed; else nil.
func (b Vocabulary) candidateValues(a *ecsv1.Argument) []string {
	switch a.GetType() {
	case typeNode:
		return b.Nodes
	case typeMoment:
		return append([]string{momentEnd}, b.FSM.GetStates()...)
	case typeCommand:
		return b.commandNames()
	}
	return nil
}

// completeLine completes the last word of a line, which ends at the cursor, as far as it is unambiguous. choices are
// the completions if there are several.
func (b Vocabulary) completeLine(line string) (longer string, choices []string) {
	words, open, err := splitWords(line)
	if err != nil || open {
		return line, nil
	}
	word := ""
	if n := len(words); n > 0 && !strings.HasSuffix(line, " ") {
		words, word = words[:n-1], words[n-1]
		if !strings.HasSuffix(line, word) {
			return line, nil // written with quotation marks: no completion
		}
	}
	choices = b.Complete(words, word)
	if len(choices) == 0 {
		return line, nil
	}
	common := choices[0]
	for _, c := range choices[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	longer = line[:len(line)-len(word)] + common
	if len(choices) > 1 {
		return longer, choices
	}
	if !strings.HasSuffix(common, "=") {
		longer += " "
	}
	return longer, nil
}
