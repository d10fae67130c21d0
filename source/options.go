package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlet/event"
	"ringlet/source/live"
)

// Options are what each kind of live source takes behind its address, before or after what the kind itself takes:
// ?name=tof, or ?name=tof&secret=FILE.
type Options struct {
	Name string // how people call the source; "": by its front-end's name for it, or by kind and address
	// MaxFragment is the size of the largest fragment in bytes; 0: the source declares none.
	MaxFragment int
	// Wrap is how many bits the counter has by which the front-end numbers events; 0: 64.
	Wrap uint8
	// Require is how long a start waits until the source's front-end is ready; 0: it does not wait
	Require time.Duration
	// StartsLast: its front-end is told that the run begins, or goes on, when the others have answered. StopsFirst: it is
	// told that the run is paused, or ends, before the others.
	StartsLast, StopsFirst bool
	Config                 string // path of a file that the front-end is given; "": none
	// NumberedBy is what of the source events are matched by.
	NumberedBy NumberedBy
	hasNumber  bool
	// Period is that of the clock by which time stamps are matched, in ns; with ByTime. Delay is how much later than the
	// others the source stamps the same event, in ns. Window is how far from a tick a stamp may be, in ns; 0: half a
	// period.
	Period uint64
	Delay  int64
	Window uint64
}

// NumberedBy is what of a source events are matched by.
type NumberedBy uint8

// What events are matched by.
const (
	ByEvent   NumberedBy = iota // the number that the front-end gives its events
	ByTrigger                   // the trigger number of each fragment
	ByTime                      // its time stamp, in periods of a clock
)

// optionNames are the options that each kind takes.
var optionNames = []string{"name", "max", "wrap", "number", "delay", "window", "require", "start", "stop", "config"}

// optionsAt is where the options of an address begin, at their question mark, or -1. A free text, such as a command,
// has them in its last word, which begins with the question mark: exec:./readout ?name=tof.
func optionsAt(address string, freeText bool) int {
	if freeText {
		at := strings.LastIndex(address, " ?")
		if at < 0 || strings.ContainsAny(address[at+1:], " \t") {
			return -1
		}
		return at + 1
	}
	return strings.IndexByte(address, '?')
}

// splitOptions takes the options of each kind out of the address of a source. What remains is the kind's.
func (in *Input) splitOptions() error {
	at := optionsAt(in.Address, in.Kind.FreeText)
	if at < 0 {
		return nil
	}
	var rest []string
	taken := 0
	for option := range strings.SplitSeq(in.Address[at+1:], "&") {
		name, value, _ := strings.Cut(option, "=")
		if !slices.Contains(optionNames, name) {
			rest = append(rest, option)
			continue
		}
		taken++
		if err := in.Options.set(name, value); err != nil {
			return fmt.Errorf("%s: %w", in.Text, err)
		}
	}
	if taken == 0 {
		return nil
	}
	if in.Options.MaxFragment != 0 && in.Kind.Held == nil {
		return fmt.Errorf("%s: fragments of %s: have at most %d bytes: leave max out", in.Text, in.Kind.Name,
			event.MaxNarrowFragment)
	}
	if in.Options.NumberedBy != ByEvent && !in.Kind.HasWords {
		return fmt.Errorf("%s: fragments of %s: have no trigger number and no time stamp: leave number out", in.Text,
			in.Kind.Name)
	}
	if in.Options.NumberedBy == ByTime && in.Options.Wrap != 0 {
		return fmt.Errorf("%s: a time stamp does not wrap: leave wrap out", in.Text)
	}
	if in.Options.NumberedBy != ByTime && in.Options.Delay != 0 {
		return fmt.Errorf("%s: delay is one of time stamps: take number=time/25ns, say, or leave delay out", in.Text)
	}
	if o := &in.Options; o.Window != 0 && (o.NumberedBy != ByTime || o.Window > o.Period/2) {
		return fmt.Errorf("%s: window is how far a time stamp may be from a tick, at most half of the clock's period: take "+
			"number=time/25ns&window=8ns, say, or leave window out", in.Text)
	}
	if in.Options.Wrap != 0 && in.Options.NumberedBy == ByEvent && !in.Kind.Counter {
		return fmt.Errorf("%s: %s: takes numbers of 64 bits only, since its front-end must know what it has sent: let the "+
			"front-end unwrap its counter, and leave wrap out", in.Text, in.Kind.Name)
	}
	if o := &in.Options; (o.Require != 0 || o.StartsLast || o.StopsFirst || o.Config != "") && !in.Kind.Follows {
		return fmt.Errorf("%s: a front-end of %s: cannot follow the run: leave require, start, stop and config out", in.Text,
			in.Kind.Name)
	}
	if in.Options.Config != "" && !in.Kind.TakesConfig {
		return fmt.Errorf("%s: a front-end of %s: cannot be given a file: leave config out", in.Text, in.Kind.Name)
	}
	in.Address = in.Address[:at]
	if len(rest) > 0 {
		in.Address += "?" + strings.Join(rest, "&")
	}
	if in.Kind.FreeText {
		in.Address = strings.TrimRight(in.Address, " ")
	}
	return nil
}

// set sets an option.
func (o *Options) set(name, value string) error {
	switch name {
	case "name":
		if o.Name != "" {
			return errors.New("it has two names: leave one out")
		}
		if err := live.CheckSourceName(value); err != nil {
			return err
		}
		o.Name = value
	case "max":
		if o.MaxFragment != 0 {
			return errors.New("it has max twice: leave one out")
		}
		var err error
		o.MaxFragment, err = parseMax(value)
		return err
	case "wrap":
		if o.Wrap != 0 {
			return errors.New("it has wrap twice: leave one out")
		}
		bits, err := strconv.ParseUint(value, 10, 8)
		if err != nil || bits < 1 || bits > 63 {
			return fmt.Errorf("wrap is how many bits the counter of the front-end has, 1 to 63, not %q", value)
		}
		o.Wrap = uint8(bits)
	case "config":
		if o.Config != "" || value == "" {
			return errors.New("config= must name one file")
		}
		o.Config = value
	case "start":
		return setWord(&o.StartsLast, name, value, "last")
	case "stop":
		return setWord(&o.StopsFirst, name, value, "first")
	case "require":
		if o.Require != 0 {
			return errors.New("it has require twice: leave one out")
		}
		var err error
		o.Require, err = parseRequire(value)
		return err
	case "number", "delay", "window":
		return o.setNumbering(name, value)
	}
	return nil
}

// setNumbering sets an option of how events are matched.
func (o *Options) setNumbering(name, value string) error {
	if name == "number" {
		if o.hasNumber {
			return errors.New("it has number twice: leave one out")
		}
		o.hasNumber = true
		return o.setNumber(value)
	}
	if name == "window" {
		if o.Window != 0 {
			return errors.New("it has window twice: leave one out")
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < 1 {
			return fmt.Errorf("window is a time such as 8ns, and not %q", value)
		}
		o.Window = uint64(d.Nanoseconds())
		return nil
	}
	if o.Delay != 0 {
		return errors.New("it has delay twice: leave one out")
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return fmt.Errorf("delay is a time such as 350ns or -1.2us, not %q", value)
	}
	o.Delay = d.Nanoseconds()
	return nil
}

// setNumber sets what events are matched by.
func (o *Options) setNumber(value string) error {
	what, period, _ := strings.Cut(value, "/")
	switch {
	case value == "event":
	case value == "trigger":
		o.NumberedBy = ByTrigger
	case what == "time":
		d, err := time.ParseDuration(period)
		if err != nil || d < 1 {
			return fmt.Errorf("number=time/25ns matches events by a clock with a period of 25 ns; %q is no such time", period)
		}
		o.NumberedBy, o.Period = ByTime, uint64(d.Nanoseconds())
	default:
		return fmt.Errorf("number says what events are matched by: event, trigger, or time/25ns, say, and not %q", value)
	}
	return nil
}

// eventBits is how many bits the front-end's numbers of events have; 0: 64.
func (o *Options) eventBits() uint8 {
	if o.NumberedBy != ByEvent {
		return 0 // the other number has so few
	}
	return o.Wrap
}

// checkWrap refuses a counter so short that fragments which come out of order could not be told from those of a lap
// later, in a window of that many events.
func (in *Input) checkWrap(window int) error {
	if in.Options.Wrap == 0 || !in.Kind.Unordered || uint64(window)/3 <= uint64(1)<<in.Options.Wrap/4 {
		return nil
	}
	return &ConfigError{"input", fmt.Sprintf("%s: a counter of %d bits is too short where fragments may come out of "+
		"order and %d events are matched at a time: lower packing, or take a counter with more bits", in.Text,
		in.Options.Wrap, window)}
}

// checkNames refuses a name that two sources have.
func checkNames(list []Input) error {
	ids := map[string]int{}
	for id, in := range list {
		if in.Options.Name == "" {
			continue
		}
		if other, ok := ids[in.Options.Name]; ok {
			return &ConfigError{"input", fmt.Sprintf("sources %d and %d are both called %s: give each a name of its own", other,
				id, in.Options.Name)}
		}
		ids[in.Options.Name] = id
	}
	return nil
}

// setWord sets an option whose value is one word.
func setWord(to *bool, name, value, word string) error {
	switch {
	case *to:
		return fmt.Errorf("it has %s twice: leave one out", name)
	case value != word:
		return fmt.Errorf("%s=%s is unknown: there is %s=%s", name, value, name, word)
	}
	*to = true
	return nil
}
