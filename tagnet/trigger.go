package tagnet

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"ringlet/internal/address"
)

// Trigger says what triggers the events of a run (register trig_sel of TagNet-farm §VII.C). Its zero value is no
// trigger: every MEP that the readout units have read is issued.
type Trigger struct {
	Kind    TriggerKind
	Address string // of TriggerUnix: absolute path of the socket; of TriggerUDP: HOST:PORT
}

// TriggerKind is a kind of trigger.
type TriggerKind uint8

// The kinds of trigger.
const (
	NoTrigger   TriggerKind = iota
	TriggerHand             // by hand alone: a command of the control
	TriggerUnix             // by datagrams to a Unix socket, or by hand
	TriggerUDP              // by UDP datagrams, or by hand
)

var errTrigger = errors.New("is no trigger: give hand, unix:PATH with an absolute path, udp:PORT or udp:HOST:PORT")

// maxSocketPath is the longest path that the kernel takes for a Unix socket, in bytes.
const maxSocketPath = 107

// ParseTrigger reads hand, unix:PATH, udp:PORT (on 127.0.0.1) and udp:HOST:PORT; an empty text is no trigger. The error
// is the end of a sentence that begins with the text.
func ParseTrigger(text string) (Trigger, error) {
	kind, at, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return Trigger{}, nil
	case text == "hand":
		return Trigger{Kind: TriggerHand}, nil
	case kind == "unix" && filepath.IsAbs(at):
		if len(at) > maxSocketPath {
			return Trigger{}, fmt.Errorf("has a path of %d bytes: a Unix socket takes %d", len(at), maxSocketPath)
		}
		return Trigger{TriggerUnix, filepath.Clean(at)}, nil
	case kind == "udp":
		if _, err := strconv.ParseUint(at, 10, 16); err == nil {
			at = "127.0.0.1:" + at
		}
		if err := address.CheckListen(at); err != nil {
			return Trigger{}, err
		}
		return Trigger{TriggerUDP, at}, nil
	}
	return Trigger{}, errTrigger
}
