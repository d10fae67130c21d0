// Package config is the one configuration of a Ringlet run: the struct, its flags, its YAML file, its checks.
//
// It stands for style.md's thirteenth convention: configuration is one struct, decoded strictly, validated whole,
// printed back in effect and frozen with the run. Nothing in Ringlet reads a setting from anywhere else.
//
// A Config holds what was given: by kong from the command line (embed Config in the command's struct and give kong the
// Loader, see below), or Default. Compose makes a Completed of it, and of a text and settings that win over it: values
// left automatic are filled in, and the whole is checked. *InvalidError names every problem at once. Compose is the one
// place in which a configuration is completed, and what comes behind takes a Completed: a root test holds both. Where
// nodes are known, CheckNodes checks it against them. From then on it is frozen. Roles says which process is what,
// Effective prints it, Restore reads that back, Hash names it.
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
// A value of zero that means "choose for me" is said at its field. What a zero becomes depends on other fields and is
// decided in Compose and nowhere else, so that the printed configuration is the one the run had.
//
// Read decodes any other file of Ringlet as strictly, into a struct of its reader's: a topology, a sweep.
//
// The package does not open the input or create the output, and does not know whether they can be: it refuses only what
// cannot work whatever the machine. All it asks the file system is whether the output is an existing directory, or the
// input by another name.
package config
