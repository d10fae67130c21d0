package fsm

import (
	"fmt"

	"ringlet/internal/registry"
)

// State is the state of a component.
type State uint8

// The stable states, then the in-between states.
const (
	Offline State = iota
	NotReady
	Ready
	Running
	Paused
	Error

	Loading
	Configuring
	Starting
	Pausing
	Resuming
	Stopping
	Resetting
	Unloading
	Recovering

	numStates
)

var stateNames = [numStates]string{
	"Offline", "NotReady", "Ready", "Running", "Paused", "Error",
	"Loading", "Configuring", "Starting", "Pausing", "Resuming",
	"Stopping", "Resetting", "Unloading", "Recovering",
}

// String returns the name of the state.
func (s State) String() string { return registry.NameOf(s, "state", stateNames[:]...) }

// IsTransitional reports whether a transition is under way.
func (s State) IsTransitional() bool { return s > Error && s < numStates }

// States returns all states: the stable ones, then the in-between ones.
func States() []State {
	list := make([]State, numStates)
	for s := range list {
		list[s] = State(s)
	}
	return list
}

// ParseState returns the state of the given name.
func ParseState(name string) (State, error) {
	for s, n := range stateNames {
		if n == name {
			return State(s), nil
		}
	}
	return Offline, fmt.Errorf("component state %q is unknown", name)
}

// MarshalText makes a State a word in reports.
func (s State) MarshalText() ([]byte, error) {
	if s >= numStates {
		return nil, fmt.Errorf("component %s has no name", s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText is ParseState for decoders.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// Command is a command of the run control to a component. The zero value is none.
type Command uint8

// The commands.
const (
	Load Command = 1 + iota
	Configure
	Start
	Pause
	Resume
	Stop
	Reset
	Unload
	Recover

	numCommands
)

var commandNames = [numCommands]string{
	"none", "load", "configure", "start", "pause", "resume", "stop", "reset", "unload", "recover",
}

// String returns the name of the command.
func (c Command) String() string { return registry.NameOf(c, "command", commandNames[:]...) }

// Commands returns all commands.
func Commands() []Command {
	list := make([]Command, 0, numCommands)
	for c := Load; c < numCommands; c++ {
		list = append(list, c)
	}
	return list
}

// ParseCommand returns the command of the given name.
func ParseCommand(name string) (Command, error) {
	for _, c := range Commands() {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("component command %q is unknown", name)
}

// MarshalText makes a Command a word in reports; none is an empty word.
func (c Command) MarshalText() ([]byte, error) {
	switch {
	case c == 0:
		return nil, nil
	case c >= numCommands:
		return nil, fmt.Errorf("component %s has no name", c)
	}
	return []byte(c.String()), nil
}

// UnmarshalText is ParseCommand for decoders; an empty word is none.
func (c *Command) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*c = 0
		return nil
	}
	*c, err = ParseCommand(string(text))
	return err
}
