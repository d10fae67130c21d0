package doctor

import (
	"cmp"
	"slices"
	"time"

	"ringlet/node/config"
	"ringlet/node/hostlimits"
)

// Facts are what was found on a host. What could not be found out is zero, or nil.
type Facts struct {
	Limits          hostlimits.Snapshot `json:"limits"`
	Interfaces      []Interface         `json:"interfaces"` // that are up
	UsableMemory    int64               `json:"memory"`     // bytes that this process may use
	AvailableMemory int64               `json:"available"`  // bytes of it that nobody uses
	MaxOpenFiles    uint64              `json:"open_files"` // that a process may have
	Clock           *Clock              `json:"clock,omitempty"`
	RemoteClock     *RemoteClock        `json:"remote_clock,omitempty"` // nil: not asked
	Path            *Path               `json:"path,omitempty"`         // nil: not asked
	Ports           []Port              `json:"ports"`
	Directories     []Directory         `json:"places"`
	Certs           []Certificate       `json:"certificates,omitempty"` // nil: not asked
}

// Certificate is one of those that the services show, or trust.
type Certificate struct {
	Name       string    `json:"name"` // empty: Err is about all of them
	NotAfter   time.Time `json:"ends"`
	RemainingS float64   `json:"left_s"` // seconds until then, when it was read
	Err        string    `json:"error,omitempty"`
}

// Interface is one that is up.
type Interface struct {
	Name     string `json:"name"`
	MTU      int    `json:"mtu"`
	Loopback bool   `json:"loopback"`
}

// Clock is what the kernel says of its own.
type Clock struct {
	Synchronised bool  `json:"synchronised"`
	MaxErrorUS   int64 `json:"max_error_us"`
}

// RemoteClock is another host's clock.
type RemoteClock struct {
	URL           string `json:"url"`
	OffsetUS      int64  `json:"offset_us"` // by which it is ahead of this host's
	UncertaintyUS int64  `json:"uncertainty_us"`
	Err           string `json:"error,omitempty"`
}

// Path is the way to a peer. Sizes are those of IP packets, bytes.
type Path struct {
	Peer            string `json:"peer"`
	Address         string `json:"address"`
	Routed          bool   `json:"routed"`               // it is on none of this host's networks: a router is between
	InterfaceMTU    int    `json:"local"`                // that this host's interface bears, up to the largest that is tried
	LargestArrived  int    `json:"largest"`              // that arrived; 0: none
	NetworkReported bool   `json:"told"`                 // the network said that larger ones do not fit, in place of losing them
	Answered        bool   `json:"answered"`             // the peer says when a small one has arrived
	RefusedBy       string `json:"refused_by,omitempty"` // who is between and refuses packets in the peer's place
	Err             string `json:"error,omitempty"`
}

// Port is one that a service wants.
type Port struct {
	Name  string `json:"name"` // 7946/udp
	InUse bool   `json:"taken"`
	Err   string `json:"error,omitempty"` // why it could not be bound otherwise
}

// Directory is a directory that will be written into.
type Directory struct {
	Use       string `json:"use"` // state, output
	Path      string `json:"path"`
	Free      int64  `json:"free"` // bytes
	Writable  bool   `json:"writable"`
	NetworkFS bool   `json:"network"` // on another host
	Err       string `json:"error,omitempty"`
}

// Wants is what a configuration needs of the host. The zero value is that of no configuration.
type Wants struct {
	Configured    bool
	LocalNodes    int           // on this host
	SharedMemory  int64         // bytes of /dev/shm
	Memory        int64         // bytes, those of /dev/shm included
	TotalNodes    int           // nodes in all
	PhaseTime     time.Duration // of a phase, where clocks end it
	Outputs       []string      // files and directories that are written
	MemoryUnknown bool          // memory depends on an input that was not read
}

// WantsOf says what the nodes of a completed configuration that live on one host need there. So many are on this one; 0
// is all of them, or one where the members are named, which is a cluster.
func WantsOf(c config.Completed, nodes int) (Wants, error) {
	w := Wants{
		Configured:    true,
		TotalNodes:    c.Nodes,
		MemoryUnknown: !c.GeneratesData(),
	}
	for _, out := range c.FileOutputs() {
		w.Outputs = append(w.Outputs, out.Output)
	}
	_, w.PhaseTime = c.Phases()
	var needs []config.Memory
	for _, r := range c.Roles() {
		m, err := c.MemoryNeeds(r)
		if err != nil {
			return Wants{}, err
		}
		needs = append(needs, m)
	}
	slices.SortFunc(needs, func(a, b config.Memory) int { return cmp.Compare(b.Total(), a.Total()) })
	w.LocalNodes = min(nodes, len(needs))
	switch {
	case nodes == 0 && c.MemberNames() != nil:
		w.LocalNodes = min(1, len(needs))
	case nodes == 0:
		w.LocalNodes = len(needs)
	}
	for _, m := range needs[:w.LocalNodes] { // which of them come here is not known: the largest
		w.SharedMemory += m.Shared()
		w.Memory += m.Total()
	}
	return w, nil
}
