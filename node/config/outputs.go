package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ringlet/builderunit/sink"
	"ringlet/internal/registry"
)

// outputComma separates the output streams of a builder unit.
const outputComma = ","

// splitOutputs splits a list of outputs. A comma separates only if every part looks like an output, since paths may
// have commas.
func splitOutputs(output string) []string {
	texts := strings.Split(output, outputComma)
	for _, text := range texts {
		name, _, colon := strings.Cut(text, ":")
		_, err := registry.Find("format", sink.Kinds, name)
		byName := strings.HasSuffix(text, "/") || strings.HasSuffix(text, ".mdf") || strings.HasSuffix(text, ".mep")
		if !byName && (!colon || err != nil) {
			return []string{output}
		}
	}
	return texts
}

// Outputs returns the outputs of a builder unit: the configuration itself, or for several outputs a configuration for
// each, with its own Output and Format.
func (c Completed) Outputs() (all []Completed) {
	for _, one := range c.outputs() {
		all = append(all, Completed{one})
	}
	return all
}

// outputs is Outputs while the configuration is being completed.
func (c *Config) outputs() []Config {
	texts := splitOutputs(c.Output)
	if len(texts) == 1 {
		return []Config{*c}
	}
	var out []Config
	for _, text := range texts {
		out = append(out, c.withOutput(text))
	}
	return out
}

// FileOutputs returns the outputs that are files.
func (c Completed) FileOutputs() (files []Completed) {
	for _, one := range c.Outputs() {
		if one.SinkKind().Files {
			files = append(files, one)
		}
	}
	return files
}

// MapPaths replaces the path of each output that writes files with the result of by. After an error it has replaced
// no path.
func (c *Completed) MapPaths(by func(path string) (string, error)) error {
	outputs := c.outputs()
	texts := make([]string, len(outputs))
	for i := range outputs {
		one := &outputs[i]
		if one.SinkKind().Files {
			var err error
			if one.Output, err = by(one.Output); err != nil {
				return err
			}
			if len(outputs) > 1 && strings.Contains(one.Output, outputComma) {
				return &commaError{one.Output}
			}
		}
		if texts[i] = one.outputWithFormat(); len(outputs) == 1 {
			texts[i] = one.Output
		}
	}
	c.Output = strings.Join(texts, outputComma)
	return nil
}

// commaError is a path with a comma among several outputs.
type commaError struct{ path string }

func (e *commaError) Error() string {
	return "output " + e.path +
		": there is a comma in the path, which is what separates several outputs: take another path"
}

// withOutput is the configuration with a single output, which may begin with its format.
func (c Config) withOutput(output string) Config {
	c.Output, c.Format, c.OutputBy = output, formatAuto, sink.Routes[0].Name
	c.splitFormat()
	return c
}

// splitFormat splits the format from the output: mdf:dir/ is dir/ with format mdf.
func (c *OutputSettings) splitFormat() {
	name, rest, colon := strings.Cut(c.Output, ":")
	row, err := registry.Find("format", sink.Kinds, name)
	if !colon || err != nil || c.Format != formatAuto && c.Format != name {
		return
	}
	if c.Format = name; !row.Remote {
		c.Output = rest
	}
}

// outputWithFormat is the inverse of splitFormat.
func (c *OutputSettings) outputWithFormat() string {
	if c.SinkKind().Remote {
		return c.Output
	}
	return c.Format + ":" + c.Output
}

// Route is the rule that distributes MEPs to several outputs. It needs a completed configuration.
func (c OutputSettings) Route() sink.Route {
	row, _ := registry.Find("output-by", sink.Routes, c.OutputBy) // Complete has checked it
	return row
}

// resolveOutput sets the format of each output.
func (c *draft) resolveOutput() {
	if err := checkOutputSpelling(c.Output); err != nil {
		c.add("output", "%v", err)
		return
	}
	texts := splitOutputs(c.Output)
	if len(texts) == 1 {
		if c.OutputBy != sink.Routes[0].Name {
			c.add("output-by",
				"there is one output stream: leave out output-by, or give several outputs with commas between them")
		}
		c.resolveSingleOutput()
		return
	}
	if len(texts) > sink.MaxStreams {
		c.add("output", "%d output streams are more than %d", len(texts), sink.MaxStreams)
		return
	}
	if c.Format != formatAuto {
		c.add("format", "there are several outputs: give the format of each before it, as in mdf:dir/,buffer:NAME")
		return
	}
	var done []OutputSettings
	for i, text := range texts {
		alone := c.withOutput(text)
		one := draft{Config: &alone}
		if one.resolveSingleOutput(); len(one.problems) > 0 {
			c.problems = append(c.problems, one.problems...)
			return
		}
		for k := range done {
			if done[k].sameOutput(&one.OutputSettings) {
				c.add("output", "output streams %d and %d are both %s", k, i, text)
			}
		}
		done, texts[i] = append(done, one.OutputSettings), one.outputWithFormat()
	}
	c.Output = strings.Join(texts, outputComma)
}

// checkOutputSpelling refuses an output that begins with a misspelled kind. A path that is meant literally has a slash
// before its colon.
func checkOutputSpelling(output string) error {
	names := registry.Names(sink.Kinds)
	for text := range strings.SplitSeq(output, outputComma) {
		name, _, colon := strings.Cut(text, ":")
		word := strings.ToLower(strings.TrimSpace(name))
		nearest := registry.Nearest(word, names)
		if !colon || name == nearest || strings.Contains(name, "/") || registry.Distance(word, nearest) > 1 {
			continue
		}
		return fmt.Errorf("%q does not begin with a kind of output, and the nearest one is %s: write %s:, without blanks; "+
			"of a path with a colon, write ./%s", text, nearest, nearest, text)
	}
	return nil
}

// sameOutput says whether two outputs write to the same place.
func (c *OutputSettings) sameOutput(o *OutputSettings) bool {
	switch kind := c.SinkKind(); {
	case kind.Name == sink.Kinds[0].Name || kind.Files != o.SinkKind().Files:
		return false
	case kind.Files:
		return sameFile(c.Output, o.Output)
	}
	a, _, _ := strings.Cut(c.outputWithFormat(), "?")
	b, _, _ := strings.Cut(o.outputWithFormat(), "?")
	return a == b
}

// resolveSingleOutput sets Format for a single output, and ends the name of a directory with a slash, so that later
// code need not ask the file system.
func (c *draft) resolveSingleOutput() {
	c.splitFormat()
	kind, err := registry.Find("format", sink.Kinds, c.Format)
	named := err == nil
	switch {
	case !named && c.Format != formatAuto:
		return // already reported
	case c.Output == "" && !named:
		c.Format = sink.Kinds[0].Name
		return
	case c.Output == "":
		if kind.Files || kind.Remote {
			c.add("format", "%s needs an output to write to", c.Format)
		}
		return
	case kind.Check != nil:
		if err := kind.Check(c.Output); err != nil {
			c.add("output", "%v", err)
		}
		return
	case named && !kind.Files:
		c.add("output", "%s would stay empty with format %s", c.Output, c.Format)
		return
	}
	if !strings.HasSuffix(c.Output, "/") && isDir(c.Output) {
		c.Output += "/"
	}
	if c.Input != "" && sameFile(c.InputFile(), c.Output) {
		c.add("output", "%s is the input: it would be overwritten", c.Output)
	}
	c.formatByName()
}

// formatByName sets the format of an output that is a path.
func (c *draft) formatByName() {
	if strings.HasSuffix(c.Output, "/") {
		// Recorded data goes back to its original format; generated fragments stay as they were built.
		if c.Format == formatAuto {
			if c.Format = "mep"; c.InputFile() != "" && !hasPacketExtension(c.InputFile()) {
				c.Format = "mdf"
			}
		}
		return
	}
	byName, err := registry.Find("format", sink.Kinds, strings.TrimPrefix(filepath.Ext(c.Output), "."))
	switch {
	case err != nil || !byName.Files:
		c.add("output", "%q is neither: end it with .mdf or .mep for one file, or with / for a directory", c.Output)
	case c.Format == formatAuto:
		c.Format = byName.Name
	case c.Format != byName.Name:
		c.add("format", "%s does not go with the output %s", c.Format, c.Output)
	}
}

// hasPacketExtension says whether a file has the extension of MEPs, MFPs or EUDAQ's events; its reader checks the
// content later.
func hasPacketExtension(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".mep" || ext == ".mfp" || ext == ".raw"
}

// sameFile says whether two paths are the same file, however they are spelled. If a file does not exist, only the paths
// count.
func sameFile(a, b string) bool {
	one, errA := os.Stat(a)
	two, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	return os.SameFile(one, two)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
