// Package config is the one configuration of a Ringlet run: the struct, its flags, its YAML file, its checks.
//
// It stands for style.md's thirteenth convention: configuration is one struct, decoded strictly, validated whole,
// printed back in effect and frozen with the run. Nothing in Ringlet reads a setting from anywhere else.
//
// A caller does, in this order:
//
//  1. obtain a Config: by kong from the command line (embed Config in the command's struct and give kong the Loader,
//     see below), by Load from a file, or by Default in a test;
//  2. Complete it: values left automatic are filled in, and the whole is checked. *InvalidError names every problem at
//     once; Compose does both of a text and of settings that win over it;
//  3. where nodes are known, Check it against them;
//  4. from then on treat it as frozen. Roles says which process is what, Effective prints it back, Hash names it.
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
// decided in Complete and nowhere else, so that the printed configuration is the one the run had.
//
// Read decodes any other file of Ringlet as strictly, into a struct of its reader's: a topology, a sweep.
//
// The package does not open the input or create the output, and does not know whether they can be: it refuses only what
// cannot work whatever the machine. All it asks the file system is whether the output is an existing directory, or the
// input by another name.
package config
