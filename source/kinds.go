package source

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"ringlet/event"
	"ringlet/internal/registry"
	"ringlet/source/ejfat"
	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/source/shmring"
)

// Settings are the parameters of a source; each kind reads the fields that concern it.
type Settings struct {
	GeneratorConfig        // the Division may be zero where data are not generated: see ReplayConfig
	RUs             int    // readout units of the run
	Input           string // a file, or the text after the kind's name and colon
	Loop            bool
	OnBadRecord     OnBadRecord
	PaceAsRecorded  bool
	PreparedBlocks  int                 // blocks that are generated once and repeated; 0: each is generated anew
	BufferCount     func(block int) int // number of retention buffers for blocks of that size
	Live            LiveSettings
}

// InputKind is a kind of source.
type InputKind struct {
	registry.Kind
	Generated bool // from the seed: sizes and bytes are known without reading anything
	File      bool // Input is a regular file
	Live      bool // its data come while the run goes on, and the scheduler cuts them into MEPs
	Open      func(ctx context.Context, s Settings) (Source, error)
	// Measure says what a run needs whose data are not generated. f is the open file of a kind with File.
	Measure func(ctx context.Context, f *os.File, s Settings) (RunNeeds, error)

	// Feed opens one live source, for as long as the run goes on; ctx bounds the opening. A row with Feed needs neither
	// Open nor Measure: Ringlet matches, packs and counts the fragments of the feed. Unordered: fragments may come out of
	// order, so that an event whose number was left out may still come.
	Feed      func(ctx context.Context, s live.FeedSettings) (live.Feed, error)
	Unordered bool
	// Check says what is wrong with an address, whatever the host; Feed makes the same checks. Claim is what the address
	// occupies on its host. FreeText: an address may be any text, such as a command line.
	Check    func(address string) error
	Claim    func(address string) HostClaim
	FreeText bool
	// Network: the source needs nothing of its host but a network address. Any other kind reaches files, sockets or
	// programs of the host, which the node must allow.
	Network bool
	// Held is how many bytes of fragments the feed at an address keeps in memory at most, if a fragment has at most the
	// given bytes, or why it cannot. Without it a source may not declare larger fragments than event.MaxNarrowFragment
	// (option max).
	Held func(address string, maxFragment int) (int, error)
	// Counter: the source may declare that its numbers are those of a counter with few bits, by the option wrap.
	Counter bool
	// Follows: the feed is a live.Follower, so its front-end may follow the run, by the options require, start, stop.
	Follows bool
	// TakesConfig: a front-end that follows the run may be given a file, by the option config.
	TakesConfig bool
	// HasWords: a fragment may have a trigger number and a time stamp.
	HasWords bool
}

// rows is the table of sources. The setting input chooses a row: an empty input is generated data, a name of this
// table with a colon is that kind, anything else is a file.
var rows = []InputKind{
	{
		Kind:      registry.Kind{Name: "generated", Help: "detector-like data, made of the seed"},
		Generated: true,
		Open:      openGenerated,
	},
	{
		Kind:    registry.Kind{Name: "file", Help: "a file of recorded events: MDF, MEP, MFP or EUDAQ"},
		File:    true,
		Open:    openReplay,
		Measure: measureReplay,
	},
	{
		Kind:  registry.Kind{Name: "shm", Help: "a ring in shared memory, which a front-end's own process fills"},
		Feed:  shmring.Open,
		Check: shmring.Check,
		Claim: claimRing,
		Held:  shmring.Size,

		Follows:  true,
		HasWords: true,
	},
	{
		Kind:    registry.Kind{Name: "tcp", Help: "frames over TCP"},
		Feed:    frames.OpenTCP,
		Check:   frames.CheckTCP,
		Claim:   claimTCP,
		Network: true,
		Held:    storeBytes,
		Counter: true,
		Follows: true,

		TakesConfig: true,
		HasWords:    true,
	},
	{
		Kind:    registry.Kind{Name: "unix", Help: "frames over a Unix-domain socket"},
		Feed:    frames.OpenUnix,
		Check:   frames.CheckUnix,
		Claim:   claimPath,
		Held:    storeBytes,
		Counter: true,
		Follows: true,

		TakesConfig: true,
		HasWords:    true,
	},
	{
		Kind:     registry.Kind{Name: "exec", Help: "frames that a program prints"},
		Feed:     frames.OpenExec,
		Check:    frames.CheckExec,
		FreeText: true,
		Held:     storeBytes,
		Counter:  true,
		Follows:  true,
		HasWords: true,

		TakesConfig: true,
	},
	{
		Kind:      registry.Kind{Name: "udp", Help: "EJFAT's segments over UDP"},
		Feed:      ejfat.Open,
		Check:     ejfat.Check,
		Claim:     claimUDP,
		Unordered: true,
		Network:   true,
		Counter:   true,
		Held:      func(_ string, maxFragment int) (int, error) { return ejfat.HeldBytes(maxFragment), nil },
	},
}

// InputKinds are the kinds that an input can name. An empty input chooses generated data.
func InputKinds() []InputKind {
	return rows[1:]
}

// storeBytes is Held of a source of frames.
func storeBytes(_ string, maxFragment int) (int, error) { return frames.StoreBytes(maxFragment), nil }

// liveKind stands for a list of inputs whose kinds have feeds.
var liveKind = InputKind{
	Kind: registry.Kind{Name: "live", Help: "what front-ends send while the run goes on"},
	Live: true,
	Open: openLive,
	Measure: func(_ context.Context, _ *os.File, s Settings) (RunNeeds, error) {
		return measureLive(s)
	},
}

// AddKindForTest adds a kind to the table, and returns the function that removes it. No run may be under way at either
// moment.
func AddKindForTest(row InputKind) (remove func()) {
	before := rows
	rows = append(rows[:len(rows):len(rows)], row)
	return func() { rows = before }
}

// Input is one live source.
type Input struct {
	Kind    InputKind
	Address string // the text after the kind's name and colon, without the options of each kind
	Text    string // kind, address and options as they stand in the input
	Name    string // in messages: that of the options, else the Text
	Options Options
	// MaxFragment is the size of the largest fragment in bytes, as the options declare it.
	MaxFragment int
}

// ParseInputs returns the live sources that an input lists, in the order of their ids. A comma separates two sources
// where the name of a kind and a colon follow; any other comma belongs to the address before it. The error names the
// part that is no live source.
func ParseInputs(input string) ([]Input, error) {
	var list []Input
	for item := range strings.SplitSeq(input, ",") {
		name, rest, _ := strings.Cut(item, ":")
		row, ok := feedKind(name, item)
		switch {
		case ok:
			list = append(list, Input{Kind: row, Address: rest, Text: item})
		case len(list) > 0:
			last := &list[len(list)-1]
			last.Address, last.Text = last.Address+","+item, last.Text+","+item
		default:
			return nil, &ConfigError{"input", fmt.Sprintf("%q is no live source: a run reads live sources, or one file, or "+
				"generates its data", item)}
		}
	}
	for i := range list {
		if err := list[i].splitOptions(); err != nil {
			return nil, &ConfigError{"input", err.Error()}
		}
		list[i].MaxFragment = cmp.Or(list[i].Options.MaxFragment, event.MaxNarrowFragment)
		list[i].Name = cmp.Or(list[i].Options.Name, list[i].Text)
	}
	return list, checkNames(list)
}

// feedKind returns the kind of that name if it has a feed and item goes on after the name.
func feedKind(name, item string) (InputKind, bool) {
	for _, r := range rows {
		if r.Feed != nil && r.Name == name && len(item) > len(name) {
			return r, true
		}
	}
	return InputKind{}, false
}

// KindOf returns the kind that an input chooses, and the part of the input that the kind reads.
func KindOf(input string) (InputKind, string) {
	if input == "" {
		return rows[0], ""
	}
	for item := range strings.SplitSeq(input, ",") {
		if name, _, _ := strings.Cut(item, ":"); len(item) > len(name) {
			if _, ok := feedKind(name, item); ok {
				return liveKind, input
			}
		}
	}
	name, rest, colon := strings.Cut(input, ":")
	for _, r := range rows[1:] {
		if colon && r.Name == name {
			return r, rest
		}
	}
	return rows[1], input
}

func openGenerated(_ context.Context, s Settings) (Source, error) {
	g, err := NewGenerator(s.GeneratorConfig)
	if err != nil || s.PreparedBlocks == 0 {
		return g, err
	}
	return NewPrepared(s.GeneratorConfig, s.PreparedBlocks, s.BufferCount(g.MaxBlock()))
}

// replay returns the settings that a replay uses.
func (s *Settings) replay() ReplayConfig {
	return ReplayConfig{
		Path:           s.Input,
		RU:             s.RU,
		RUs:            s.RUs,
		Division:       s.Division,
		Packing:        s.Packing,
		Loop:           s.Loop,
		OnBadRecord:    s.OnBadRecord,
		Events:         s.Events,
		CRC:            s.CRC,
		PaceAsRecorded: s.PaceAsRecorded,
	}
}

func openReplay(ctx context.Context, s Settings) (Source, error) {
	return openRecorded(ctx, s.replay())
}

func measureReplay(ctx context.Context, f *os.File, s Settings) (RunNeeds, error) {
	return measureFile(ctx, f, s.replay())
}
