package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"ringlet/node/config"
)

// newParser makes a parser for a struct of flags, with the settings of runs.
func newParser(of any, options ...kong.Option) (*kong.Kong, error) {
	full := new(fullHelp)
	common := []kong.Option{kong.Name("ringlet"), config.KongVars, kong.Bind(full), kong.ValueFormatter(full.format)}
	common = append(common, config.Decimals()...)
	return kong.New(of, append(common, options...)...)
}

// grammar is the struct for kong: with the command alone that the command line begins with. Building all commands takes
// most of the time in which a process starts, and a run starts one process for each node. Only the program's help, an
// unknown first word and completion need all commands.
func grammar(args []string) any {
	if len(args) > 0 && args[0] != "completion" {
		for command := range reflect.TypeFor[cli]().Fields() {
			if strings.EqualFold(command.Name, args[0]) {
				return reflect.New(reflect.StructOf([]reflect.StructField{command})).Interface()
			}
		}
	}
	return &cli{}
}

// fullHelp says whether help has the whole descriptions of settings; --help has only their first sentences, to fit two
// screens.
type fullHelp bool

var bracketedText = regexp.MustCompile(` \([^()]*\)`)

// format formats the help of a flag for kong. Settings are the flags that have a group.
func (h *fullHelp) format(v *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(v)
	if *h || v.Flag == nil || v.Flag.Group == nil {
		return text
	}
	first, _, _ := strings.Cut(bracketedText.ReplaceAllString(text, ""), ". ")
	return strings.TrimSuffix(first, ".")
}

// helpAll is the flag --help-all.
type helpAll bool

// BeforeReset is a hook of kong: it prints the help and ends the program.
func (helpAll) BeforeReset(ctx *kong.Context, full *fullHelp) error {
	*full = true
	for _, group := range ctx.Selected().AllFlags(false) {
		for _, f := range group {
			if f.Group != nil {
				f.Hidden = false
			}
		}
	}
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

// parse parses a command line. It refuses a list flag that is given twice, since kong would use the last one only and
// drop the first silently. Of other flags the last counts, so that a script can append overrides.
func parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	k, err := parser.Parse(args)
	if err != nil {
		return k, err
	}
	seen := map[*kong.Flag]bool{}
	for _, at := range k.Path {
		f := at.Flag
		if f == nil || at.Resolved || listFlagExamples[f.Name] == "" || f.IsSlice() {
			continue
		}
		if seen[f] {
			return k, fmt.Errorf("--%s is given twice, and is one list: give it once, as in --%[1]s %s", f.Name,
				listFlagExamples[f.Name])
		}
		seen[f] = true
	}
	return k, nil
}

// listFlagExamples are the flags whose value may be a list, each with an example.
var listFlagExamples = map[string]string{
	"input":           "tcp:127.0.0.1:7000,shm:cam0",
	"output":          "mdf:dir/,buffer:NAME",
	"decision-output": "buffer:NAME,tcp:HOST:PORT",
	"ports":           "n2=50Mbit,n5=100Mbit",
}
