package config

import (
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"ringlet/barrier"
	"ringlet/builderunit/sink"
	"ringlet/event/pattern"
	"ringlet/filter/builtin"
	"ringlet/internal/registry"
	"ringlet/readoutunit"
	"ringlet/source"
	"ringlet/transport"
	"ringlet/velo/content"
)

// KongVars are words from the tables of kinds for the tags of settings. A caller that gives the settings to kong gives
// it these, too.
var KongVars = kong.Vars{
	"barriers":         strings.Join(registry.Names(barrier.Kinds), ","),
	"help_barriers":    registry.Help(barrier.Kinds),
	"disciplines":      strings.Join(registry.Names(readoutunit.Disciplines), ","),
	"help_disciplines": registry.Help(readoutunit.Disciplines),
	"formats":          strings.Join(registry.Names(sink.Kinds), ","),
	"help_formats":     registry.Help(sink.Kinds),
	"routes":           strings.Join(registry.Names(sink.Routes), ","),
	"help_routes":      registry.Help(sink.Routes),
	"help_filters":     registry.Help(builtin.Kinds),
	"help_sources":     registry.Help(source.InputKinds()),
	"transports":       strings.Join(transport.Choices(), ","),
	"help_transports":  transport.HelpChoices(),
}

// contentKinds is the table of fragment models that are programs, not rules.
var contentKinds = []*source.ContentKind{content.Kind}

// ExpandVars replaces KongVars in the text of a tag.
func ExpandVars(tag string) string {
	return os.Expand(tag, func(name string) string { return KongVars[name] })
}

// SettingWords lists the words that a setting accepts besides other values, by its key.
func SettingWords(key string) []string {
	switch key {
	case "phase-end":
		return append(registry.Names(barrier.Kinds), phaseEndCount)
	case "next":
		return []string{nextRoundRobin, nextDemand}
	}
	return nil
}

// Source is the kind of the input, and the input without the kind's prefix.
func (c InputSettings) Source() (kind source.InputKind, input string) { return source.KindOf(c.Input) }

// SourceSettings are the settings of a readout unit's source. It needs a completed configuration.
func (c Config) SourceSettings(ru int) (s source.Settings, err error) {
	_, input := c.Source()
	s = source.Settings{
		GeneratorConfig: source.GeneratorConfig{
			RU:             ru,
			Division:       c.Division(),
			Packing:        c.Packing,
			FragmentSize:   int(c.FragmentSize),
			Seed:           c.Seed,
			Events:         c.Events,
			CRC:            c.Verify != verifyOff,
			LargeFragments: c.largeFragments(),
		},
		RUs:            c.RUs,
		Input:          input,
		Loop:           c.Loop,
		PaceAsRecorded: c.AsTaken,
		PreparedBlocks: c.Prepared,
		BufferCount: func(block int) int {
			_, n := c.RetentionBuffers(ru, block)
			return n
		},
	}
	switch {
	case c.HasLiveSources():
		s.Live, err = c.liveSettings()
	case c.SimulatesDetector():
		s.Content = c.content()
	case c.GeneratesData():
		s.Model, err = pattern.ParseModel(c.FragmentModel)
	default:
		s.OnBadRecord, err = source.ParseOnBadRecord(c.OnBadRecord)
	}
	return s, err
}

// Pattern is the rule of generated data; nil for other data, and for a simulated detector. It needs a completed
// configuration.
func (c Config) Pattern() (*pattern.Pattern, error) {
	if !c.GeneratesData() || c.SimulatesDetector() {
		return nil, nil
	}
	s, err := c.SourceSettings(0)
	if err != nil {
		return nil, err
	}
	return s.Pattern()
}

// GeneratesData says whether the data is made from the seed.
func (c InputSettings) GeneratesData() bool {
	kind, _ := c.Source()
	return kind.Generated
}

// InputFile is the file of the input, or "".
func (c InputSettings) InputFile() string {
	if kind, input := c.Source(); kind.File {
		return input
	}
	return ""
}

// SinkKind is the kind of a single output: see Outputs. It needs a completed configuration.
func (c OutputSettings) SinkKind() sink.Kind {
	row, _ := registry.Find("format", sink.Kinds, c.Format) // Complete has looked
	return row
}

// WritesFiles says whether an output is files: a directory, or a single file that is made from a directory.
func (c Completed) WritesFiles() bool { return len(c.FileOutputs()) > 0 }

// SingleFile says whether a single output is one file in event order, and not a directory, a buffer, or nothing. It
// needs a completed configuration.
func (c OutputSettings) SingleFile() bool {
	return c.SinkKind().Files && !strings.HasSuffix(c.Output, "/")
}

// DisciplineKind is the discipline. It needs a completed configuration.
func (c Traffic) DisciplineKind() readoutunit.Discipline {
	row, _ := registry.Find("discipline", readoutunit.Disciplines, c.Discipline) // Complete has looked
	return row
}

// Carriers are the carriers of the links. It needs a completed configuration.
func (c Network) Carriers() transport.CarrierChoice {
	choice, _ := transport.ParseChoice(c.Transport) // Complete has looked
	return choice
}

// LocalCarrier is the name of the carrier between processes of one host.
var LocalCarrier = transport.CarrierLocal.String()

// RemoteCarrier is the carrier between hosts if the carrier of a link depends on its peer's host, else "". It needs a
// completed configuration.
func (c Network) RemoteCarrier() string {
	by := c.Carriers()
	if by.Carrier != transport.CarrierAuto {
		return ""
	}
	return by.NetworkCarrier.Carrier.String()
}

// NoBarrier is the name of the kind without a barrier.
var NoBarrier = barrier.None.String()

// BarrierKind is the kind of barrier that ends phases, or barrier.None. It needs a completed configuration.
func (c Traffic) BarrierKind() barrier.Kind {
	kind, err := barrier.ParseKind(c.PhaseEnd)
	if err != nil || !c.DisciplineKind().Phases {
		return barrier.None
	}
	return kind
}
