// Package config is the configuration of a Ringlet run: the struct, its flags, its YAML file, its checks.
//
// It follows style.md's thirteenth convention: configuration is one struct, decoded strictly, validated as a whole,
// printed back in effect and frozen with the run. No other part of Ringlet reads settings.
//
// A Config holds the given values: from the command line by kong (embed Config in the command's struct and give kong
// the Loader, see below), or from Default. Compose makes a Completed from it, a text and settings that override it: it
// fills in automatic values, and checks the whole. *InvalidError names every problem at once. Only Compose completes a
// configuration, and later code takes a Completed: a root test checks both. If nodes are known, CheckNodes checks the
// Completed against them. From then on it is frozen. Roles returns the units of each process, Effective prints the
// configuration, Restore reads that back, Hash identifies it.
//
// With kong:
//
//	var cli struct {
//		Run struct {
//			Config config.Config `embed:""`
//			File   kong.ConfigFlag `name:"config" placeholder:"FILE" help:"Read the settings from this YAML file."`
//		} `cmd:""`
//	}
//	kong.Parse(&cli, kong.Configuration(config.Loader))
//
// Flags and YAML keys are the same names; a flag given on the command line wins over the file, the file over the
// default.
//
// If zero means "choose for me", the field says so. Only Compose decides what a zero becomes, which depends on other
// fields; so the printed configuration is the one that the run had.
//
// Read decodes any other file of Ringlet as strictly, into a struct of the caller: a topology, a sweep.
//
// The package does not open the input or create the output, and cannot know whether both are possible: it refuses only
// what works on no machine. It asks the file system only whether the output is an existing directory, or another name
// of the input.
package config
