package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Config has all settings of a run. The yaml key of a field is the name of its flag.
type Config struct {
	// OneHost says, before Complete, that all nodes are processes of one host: they have no ports to keep free between
	// them, whatever the carrier. It is no setting: the program that starts the nodes knows it, and not the author of a
	// file.
	OneHost bool `yaml:"-" kong:"-"`
	// NodesPerProcess, before Compose, is how many nodes each process has, where members are not named: their names say it
	// (NodeName). 0 means one. It is no setting, for the same reason.
	NodesPerProcess int `yaml:"-" kong:"-"`
	// OpenEnded says, before Compose, that a run without a given end goes on until it is stopped. It is no setting either:
	// a run control stops its runs, a single run has to end.
	OpenEnded bool `yaml:"-" kong:"-"`

	// JoinedMembers, before Compose, are the members where neither they nor a shape are given: the nodes that have joined
	// and say their roles, as members lists them. Empty: no node says a role.
	JoinedMembers string `yaml:"-" kong:"-"`

	Shape          `yaml:",inline" embed:""`
	RunEnd         `yaml:",inline" embed:""`
	Data           `yaml:",inline" embed:""`
	Traffic        `yaml:",inline" embed:""`
	Network        `yaml:",inline" embed:""`
	Schedule       `yaml:",inline" embed:""`
	InputSettings  `yaml:",inline" embed:""`
	OutputSettings `yaml:",inline" embed:""`
	Operation      `yaml:",inline" embed:""`

	Debug Debug `yaml:"debug" embed:"" prefix:"debug-"`
}

// Shape is the number of units and nodes.
type Shape struct {
	// Zero Nodes, RUs, BUs: see resolveShape.
	Nodes int `yaml:"nodes" default:"0" group:"Shape" help:"Processes, each a readout and a builder unit (with --rus and --bus: the ranks these are spread over); 0 = 4, or rus + bus."`
	RUs   int `yaml:"rus" name:"rus" default:"0" group:"Shape" help:"Readout units, on the first ranks (with --bus and without --nodes each unit is a process of its own)."`
	BUs   int `yaml:"bus" name:"bus" default:"0" group:"Shape" help:"Builder units, on the last ranks."`
}

// RunEnd is the end of a run.
type RunEnd struct {
	// Zero Duration: 10 s, or no limit if Events or an input that does not loop ends the run.
	Duration time.Duration `yaml:"duration" default:"0s" group:"End of run" help:"Stop after this time; 0 = 10s, or no limit where --events or an --input without --loop ends the run."`
	Events   uint64        `yaml:"events" default:"0" group:"End of run" help:"Stop after this many events; 0 = no limit."`
}

// Data describes events, and their generator.
type Data struct {
	// FragmentModel "" means lhcb; it stays empty so that giving it together with an input can be refused.
	Packing       int     `yaml:"packing" default:"4000" group:"Data" help:"Packing factor: events per MFP, 1 to 65535."`
	FragmentSize  Bytes   `yaml:"fragment-size" default:"133" group:"Data" help:"Mean size of a generated fragment, such as 3MiB, at most 1GiB."`
	FragmentModel string  `yaml:"fragment-model" enum:"lhcb,poisson,constant,velo," default:"" group:"Data" help:"Generated fragments: lhcb (three groups of sources with unequal shares, Poissonian sizes), poisson, constant, velo (the 100 boards of a simulated vertex detector, each a source). Default lhcb."`
	Rate          float64 `yaml:"rate" default:"0" group:"Data" help:"Events per second; 0 = as fast as it goes."`
	Trigger       string  `yaml:"trigger" default:"" placeholder:"WHAT" group:"Data" help:"What triggers events: hand, unix:PATH, udp:PORT or udp:HOST:PORT. By hand: ringlet ctl trigger, or the page. The others take datagrams at the scheduler's node, udp:PORT at 127.0.0.1; each is one event, and the hand works, too. In place of the rate, with --packing 1."`
	Streams       Counts  `yaml:"streams" default:"0" placeholder:"N,..." group:"Data" help:"Sources of each readout unit: 3, or a number for each, such as 5,3. 0 = 3, or what --sources or the input needs."`
	Sources       int     `yaml:"sources" default:"0" group:"Data" help:"Sources of all readout units, dealt out evenly. 0 = by --streams."`
	Seed          uint64  `yaml:"seed" default:"1" group:"Data" help:"Seed of the generator: the same seed gives the same bytes."`
	Prepared      int     `yaml:"prepared" default:"0" group:"Data" help:"Blocks that are made once and read again and again; 0 = each is made anew. They come again with event ids of their own."`
	RunNumber     uint32  `yaml:"run-number" default:"0" group:"Data" help:"Run number in the events; 0 = one after the last in the output, or 1. The run control gives numbers of its own."`
}

// Traffic decides which unit may send, and when.
type Traffic struct {
	// Seats "" means the order of ranks, RoI "" no region of interest.
	Discipline string `yaml:"discipline" enum:"${disciplines}" default:"shift" group:"Traffic" help:"Who decides when a readout unit may send: ${help_disciplines}."`
	PhaseEnd   string `yaml:"phase-end" default:"tournament" placeholder:"WHAT" group:"Traffic" help:"What ends a phase of the shift: a barrier, count, or a time such as 20ms. Barriers: ${help_barriers}. count: the unit's own MFPs are written. A time: the hosts' clocks must agree to a small part of it."`
	PhaseSlack int    `yaml:"phase-slack" default:"-1" group:"Traffic" help:"Most phases that a readout unit may be ahead of the slowest one, if a barrier ends the phases, 0 to 16. A value counts up to one less than the phases of a round. -1 (on a command line --phase-slack=-1): the most that counts between processes of one host (ringlet run, or --transport local), which have no ports to keep free; else 0."`
	Seats      string `yaml:"seats" default:"" placeholder:"RANKS" group:"Traffic" help:"Order of the nodes in the shift, by rank, with - for a dummy: 0,1,-,2. ringlet plan proposes it. Default: in the order of ranks."`
	RoI        string `yaml:"roi" name:"roi" default:"" placeholder:"RUS[:SHARE]" group:"Traffic" help:"With --discipline pull: readout units to ask first, by index. With a share, as in 0,2:0.3, 0.3 of the MEPs are accepted, chosen by number and seed; builder units ask for the other parts of these MEPs, and reject all other MEPs. Without a share the filter decides by the first parts which MEPs are rejected; without a filter all are accepted."`
}

// Network is the carrier of bytes to the peer.
type Network struct {
	Transport string `yaml:"transport" enum:"${transports}" default:"quic" group:"Network" help:"Carrier of remote writes: ${help_transports}."`
}

// Schedule decides which builder unit gets a MEP, and has the memory for it.
type Schedule struct {
	// Zero Slots, SlotSize: fitted to the data.
	Slots      int    `yaml:"slots" default:"0" group:"Schedule" help:"Slots per builder unit, each the memory for one MEP; 0 = fitted to the data: 4, and more of MEPs below 4 MiB."`
	SlotSize   Bytes  `yaml:"slot-size" default:"0" group:"Schedule" help:"Size of a slot, such as 64MiB; 0 = fitted to the data."`
	EmptyPlace string `yaml:"empty-place" enum:"wait,skip," default:"" group:"Schedule" help:"When a builder unit has no free slot: the cycle waits, or its place is empty (skip). Default wait, or skip with --discipline pull."`
	Overload   string `yaml:"overload" enum:"hold,discard" default:"hold" group:"Schedule" help:"If an output cannot keep up, complete MEPs hold their slots, or are discarded."`

	// Rules of turns. BusyGroup stays "" without groups, so that giving it there can be refused.
	Next       string `yaml:"next" default:"" placeholder:"RULE" group:"Schedule" help:"Which builder unit gets the next MEP: round-robin, demand, or weights 2,1,1. round-robin: group after group, in a group one after the other. demand: the group with the largest share of its slots free, in it the builder unit with most. Weights are 1 to 100; 2,1,1 gives the first one half of the MEPs. Default round-robin, or demand with --discipline pull."`
	Groups     Sets   `yaml:"groups" default:"" placeholder:"SETS" group:"Schedule" help:"Groups of builder units that share a bottleneck, such as a switch: 0-3;4-7. A group never has two running events: MEPs that have a token and no outcome."`
	BusyGroup  string `yaml:"busy-group" enum:"wait,skip," default:"" group:"Schedule" help:"When the group whose turn it is has its running event: wait, or lose the turn (skip). Default wait."`
	Partitions Sets   `yaml:"partitions" default:"" placeholder:"SETS" group:"Schedule" help:"Partitions of the builder units, by index: 0-3;4-7. Successive MEPs go to one after the other. A group lies in one partition."`
}

// InputSettings describe the source of data that is not generated.
type InputSettings struct {
	Input           string        `yaml:"input" default:"" placeholder:"WHAT" group:"Input and output" help:"Replay this file, or read live sources, in place of generated data. There are: ${help_sources}. A path is a file; each other kind is its name, a colon and an address. Live sources are a list, such as tcp:127.0.0.1:7000,shm:cam0, in the order of their source ids; --streams says how many each readout unit has, or they are dealt out evenly."`
	Loop            bool          `yaml:"loop" group:"Input and output" help:"Replay the input again and again."`
	AsTaken         bool          `yaml:"as-taken" group:"Input and output" help:"Replay an MDF file with the times that its events were taken at."`
	OnBadRecord     string        `yaml:"on-bad-record" enum:"stop,skip" default:"stop" group:"Input and output" help:"What a damaged record of the input does: ${enum} (skipped records are counted)."`
	FragmentTimeout time.Duration `yaml:"fragment-timeout" default:"1s" group:"Input and output" help:"How long an event of live sources waits for a fragment."`
	OnMissing       string        `yaml:"on-missing" enum:"mark,wait,stop" default:"mark" group:"Input and output" help:"A fragment that has not come in that time is marked as missing, waited for as long as it can come, or ends the run."`
	TolerateMissing string        `yaml:"tolerate-missing" default:"0" placeholder:"N" group:"Input and output" help:"Fragments of a source that a GOOD run may lack. A number, or a share of the source's fragments such as 0.1%; with more the run is DEGRADED."`
	MaxLeap         uint64        `yaml:"max-leap" default:"1000000" group:"Input and output" help:"How far the numbers of a lone source may jump. A number farther away than this many is thrown away, unless another source of the readout unit has it, too."`
	// FrontendConfigs is the content of files that live sources name by ?config=, as a JSON object by name. The control
	// reads them when it loads a configuration; it is no setting.
	FrontendConfigs string        `yaml:"frontend-configs,omitempty" kong:"-"`
	FlushAfter      time.Duration `yaml:"flush-after" default:"500ms" group:"Input and output" help:"How long a fragment of a live source waits until its MFP is full."`
	Busy            string        `yaml:"busy" default:"" placeholder:"WHERE" group:"Input and output" hidden:"" help:"Where each readout unit with live sources says that its buffers are nearly full, and when there is room again: unix:PATH on its host, udp:PORT there or udp:HOST:PORT. A datagram for each change, and one each second."`
	BusyHigh        int           `yaml:"busy-high" default:"80" placeholder:"PERCENT" group:"Input and output" hidden:"" help:"A readout unit is busy when a buffer is filled up to this share."`
	BusyLow         int           `yaml:"busy-low" default:"50" placeholder:"PERCENT" group:"Input and output" hidden:"" help:"A busy readout unit is free when its buffers are filled no more than this."`
}

// OutputSettings describe the filter and the outputs of events.
type OutputSettings struct {
	Output      string        `yaml:"output" default:"" placeholder:"PATH" group:"Input and output" help:"Write the events: dir/ is a directory to which each run adds one of its own, x.mdf or x.mep one file in event order. Several with commas between them are output streams of each builder unit; the format may stand before each: mdf:dir/,buffer:NAME,udp:HOST:PORT,discard:. Nothing = discard."`
	Filter      string        `yaml:"filter" default:"" placeholder:"WHAT" group:"Input and output" help:"Judge each built event: ${help_filters}. Behind a comma is the most time for an event, such as vertex,50ms; without it 100ms. Events that the filter does not reject in time are kept. With --output-by decision rejected MEPs go to the last output stream, which may be discard:; a MEP is rejected if all its events are, so with --packing 1 each event is routed by itself. Without that rule no event is dropped, and decisions are counted."`
	OutputBy    string        `yaml:"output-by" enum:"${routes}" default:"turns" group:"Input and output" help:"Which output stream gets a MEP: ${help_routes}."`
	Format      string        `yaml:"format" enum:"auto,${formats}" default:"auto" group:"Input and output" help:"Format of the output: ${help_formats}, auto (by the name of the output)."`
	SegmentSize Bytes         `yaml:"segment-size" default:"4GiB" group:"Input and output" help:"Size at which a builder unit closes a file and begins the next."`
	SegmentTime time.Duration `yaml:"segment-time" default:"10m" group:"Input and output" help:"Age at which a builder unit closes a file, however small."`
	DiskBacklog Bytes         `yaml:"backlog" name:"backlog" default:"0" placeholder:"SIZE" group:"Input and output" help:"Most bytes of a backlog for a second filter. The first output is such a backlog of each builder unit; the second filter removes the segments that it has drained. While a backlog is full, built events wait, as for a slow disk, or are discarded with --overload discard. 0 = the output is kept."`
	Durability  string        `yaml:"durability" enum:"memory,file,disk" default:"file" group:"Input and output" help:"Where a MEP must be to count as built (readout units then release it): memory (of the builder unit's process), file (it survives the death of any process), disk (it survives a power cut)."`
	Overwrite   bool          `yaml:"overwrite" group:"Input and output" help:"Replace an output of the same name, or a run of the same number in it. Without it nothing that is there is touched."`
	Verify      string        `yaml:"verify" enum:"off,crc,full" default:"crc" group:"Input and output" help:"What a builder unit checks of a complete MEP: ${enum}. full compares each byte with what the generator made."`
}

// Operation has the settings of the partition: members, losses, recovery, and the decision unit.
type Operation struct {
	// Empty Members: as many as the shape needs, by name. Empty TagnetNode: the first member, or the control itself if it
	// starts the nodes.
	Members     string        `yaml:"members" default:"" placeholder:"NAMES" group:"Operation" help:"The nodes that take part, by name, in the order of ranks: n0,n1,n2. Or each with its role, which makes the shape: n0:ru,n1:both,n2:bu. Default: the first by name of those that have joined, each for units that its own --role allows."`
	TagnetNode  string        `yaml:"tagnet-node" default:"" placeholder:"NAME" group:"Operation" help:"The node on which the scheduler lives. Default: the first member."`
	NodeMemory  Bytes         `yaml:"node-memory" default:"0" group:"Operation" help:"Memory for slots and retention buffers of a node; 0 = what its host has."`
	ReadoutLoss string        `yaml:"readout-loss" default:"essential" placeholder:"POLICY" group:"Operation" help:"Loss of readout units: essential (the run ends, and no other begins without all of them), at-least N of M (the run goes on while N are left, and events lack what the lost ones had, marked as missing), or expendable (likewise, while one is left). A run ends all the same where the node has a builder unit, too, or with tags."`
	BuilderLoss string        `yaml:"builder-loss" default:"essential" placeholder:"POLICY" group:"Operation" help:"Loss of builder units: essential (the run ends), at-least N of M (the run goes on, degraded, while N are left), or expendable (while one is left)."`
	Silence     time.Duration `yaml:"silence" default:"5s" group:"Operation" hidden:"" help:"How long nothing is heard of a process or its host before it counts as lost. Links, streams and the control wait for times that follow from it. Shorter, others stand still for less when a host is cut off, and a busy host is lost sooner."`
	ControlLoss time.Duration `yaml:"control-loss" default:"60s" group:"Operation" help:"How long the nodes go on building when the control is gone. After that they end the run in good order."`
	Spares      string        `yaml:"spares" enum:"never,auto" default:"never" group:"Operation" help:"Nodes that are no members substitute for lost ones: never, or auto. With auto they do so in the run."`
	Recovery    string        `yaml:"recovery" default:"never" placeholder:"POLICY" group:"Operation" help:"After a fault has ended a run: never (an operator has to recover), or N in TIME (the partition recovers and starts a new run by itself, at most N times in that time, e.g. 3 in 10m)."`

	// Decisions. Zero DecisionTimeout: see EffectiveDecisionTimeout.
	DecisionNode    string        `yaml:"decision-node" default:"" placeholder:"NAME" group:"Operation" help:"The node that has the decision unit. It gives every event one decision, in order, by what the builder units say. It may be a node without other units: --nodes 7 --rus 3 --bus 3 --decision-node n3. Default: there is none."`
	DecisionTimeout time.Duration `yaml:"decision-timeout" default:"0s" group:"Operation" help:"When an event is decided without a result; 0 = 1.6ms times --packing. It counts from when the event was triggered, as far as the decision unit knows; the default is 10s at most."`
	DecisionOutput  string        `yaml:"decision-output" default:"" placeholder:"WHERE" group:"Operation" help:"Hand decisions to subscribers: buffer:NAME,tcp:HOST:PORT. buffer is a shared-memory buffer on the decision node; a subscriber that connects by tcp gets 16 bytes for each decision from then on; with ?secret=FILE behind the address it has to prove that it has the file."`
}

// Debug has the settings that break a run on purpose, and those that are derived unless a measurement needs another
// value. Their YAML keys are under "debug", their flags begin with --debug-, and only --help-all shows them.
type Debug struct {
	Drop float64 `yaml:"drop" default:"0" group:"Debugging" hidden:"" help:"Share of datagrams thrown away as they arrive, 0 to 0.5, chosen by the seed."`
	// Damage is read by transport.ParseDamage.
	Damage string `yaml:"damage" default:"" placeholder:"KIND=SHARE" group:"Debugging" hidden:"" help:"Damage on purpose, kinds and shares of packets: header=1e-4,body=1e-4 as they arrive, epoch=1e-4 as they are sent, table=1e-4 as their window is looked up."`

	// Zero LookAhead: by the slots. Zero PullWindow: 4, if builder units pull. Zero BarrierTimeout: Timeouts.Barrier, two
	// orders above the longest phase seen (a 10 MB MFP at 1 Gbit/s: 80 ms).
	BarrierTimeout time.Duration `yaml:"barrier-timeout" default:"0s" group:"Debugging" hidden:"" help:"A barrier that waits longer ends the run, and names the units that are missing. 0 = as long as silence, 5s at least."`
	LookAhead      int           `yaml:"look-ahead" default:"0" group:"Debugging" hidden:"" help:"Cycles for which tokens are given out ahead of need. 0 = as many as there are slots, fewer of large MEPs."`
	PullWindow     int           `yaml:"pull-window" default:"0" group:"Debugging" hidden:"" help:"With --discipline pull: most parts that a builder unit has requested and not received, over all MEPs; 1 is one readout unit after the other. 0 = 4."`

	// Zero SuspendEvery, SuspendFor: 2 s, 100 ms if builder units are suspended.
	SuspendBUs   string        `yaml:"suspend-bus" name:"suspend-bus" default:"" placeholder:"BUS" group:"Debugging" hidden:"" help:"Builder units that stop now and then, one at a time, by index: 0,2 or 1-3, or all. A stopped one takes no complete MEP, and its memory goes on being written."`
	SuspendEvery time.Duration `yaml:"suspend-every" default:"0s" group:"Debugging" hidden:"" help:"Time from one suspension to the next, of any builder unit. 0 = 2s."`
	SuspendFor   time.Duration `yaml:"suspend-for" default:"0s" group:"Debugging" hidden:"" help:"Length of a suspension, less than the time between them. 0 = 100ms."`

	Stamps bool `yaml:"stamps" default:"false" group:"Debugging" hidden:"" help:"Have the kernel time-stamp packets that arrive, and report how long they wait in a host until they are read: the part of a latency that is not the network's."`

	LargeRU     int `yaml:"large-ru" default:"0" group:"Debugging" hidden:"" help:"Readout unit, by index, whose generated fragments are larger now and then, with --debug-large-every."`
	LargeEvery  int `yaml:"large-every" default:"0" group:"Debugging" hidden:"" help:"One of every so many MEPs has larger fragments of the readout unit --debug-large-ru. 0 = none."`
	LargeFactor int `yaml:"large-factor" default:"5" group:"Debugging" hidden:"" help:"How many times as large they are."`
}

// Fragment models.
const (
	modelLHCb     = "lhcb"
	modelPoisson  = "poisson"
	modelConstant = "constant"
	modelVelo     = "velo"
)

// formatAuto remains after Complete only if there are several outputs, which have formats of their own.
const formatAuto = "auto"

// What a MEP must have reached to count as built.
const (
	DurabilityMemory = "memory"
	durabilityFile   = "file"
	durabilityDisk   = "disk"
)

// Ends of phases that are not barriers, as Phases returns them.
const (
	PhaseEndBarrier = "barrier"
	phaseEndCount   = "count"
	phaseEndTime    = "window" // the word of reports and metrics
)

// What to do with MEPs for which the output of a builder unit is too slow.
const (
	OverloadHold    = "hold"
	OverloadDiscard = "discard"
)

// SparesAuto has spares substitute for lost members.
const SparesAuto = "auto"

// Verification levels.
const (
	verifyOff  = "off"
	verifyCRC  = "crc"
	VerifyFull = "full"
)

// Defaults that depend on other fields, so no flag can have them.
const (
	defaultNodes    = 4
	defaultDuration = 10 * time.Second
	// An RU of LHCb reads three streams (LHCb-EB §II.A).
	defaultStreams = "3"
)

// Default returns the configuration of a command line without flags: the defaults of the tags. It is not complete: see
// Compose.
func Default() (c Config) {
	for _, f := range settingFields(&c) {
		if text := f.tag.Get("default"); text != "" {
			if err := decodeInto(f.value, &yaml.Node{Kind: yaml.ScalarNode, Value: text}); err != nil {
				panic(fmt.Sprintf("config: the default of %s: %v", f.key, err))
			}
		}
	}
	return c
}

// Complete fills in open values and checks all of them. On error, an *InvalidError, c must not be used. Completing
// twice changes nothing. Only Compose and tests call it.
func (c *Config) Complete() error {
	d := draft{Config: c}
	d.checkValues()
	if max(c.Nodes, c.RUs, c.BUs) > maxSources { // later steps take time and memory for each
		return d.err()
	}
	d.resolveShape()
	d.resolveEnd()
	d.resolveData()
	d.checkCarriers()
	d.resolveOutput()
	d.checkFilter()
	d.checkBacklog()
	d.resolveDiscipline()
	d.resolveSlack()
	d.resolveRules()
	d.resolveSlots()
	d.resolvePull()
	d.resolvePush()
	d.resolveOverload()
	resolveSilence(&d)
	d.checkOperation()
	d.checkDecisions()
	d.checkSlot()
	d.checkFragments()
	return d.err()
}

// draft is a configuration that is being completed or checked, with the problems found so far.
type draft struct {
	*Config
	problems
}

// Validate reports whether the configuration is valid, and does not change it. Kong calls it for an embedded Config.
func (c Config) Validate() error {
	_, err := c.Compose("", nil, nil)
	return err
}

// Effective prints the configuration as YAML that Restore reads back to the same value.
func (c Config) Effective() []byte {
	out, err := yaml.Marshal(c)
	if err != nil {
		// A struct of numbers, strings and durations always has a YAML form.
		panic(fmt.Sprintf("config: marshal: %v", err))
	}
	return out
}

// Hash identifies the configuration: the SHA-256 of Effective in hexadecimal. Runs with the same hash had the same
// settings.
func (c Config) Hash() string {
	sum := sha256.Sum256(c.Effective())
	return hex.EncodeToString(sum[:])
}

// endsByItself says whether the run ends by itself, by events or by the end of an input that does not loop.
func (c Config) endsByItself() bool {
	return c.Events > 0 || (!c.GeneratesData() && !c.Loop)
}
