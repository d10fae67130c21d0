package doctor

import (
	"cmp"
	"slices"
	"time"

	"ringlet/node/config"
	"ringlet/node/hostlimits"
)

// Facts were found on a host. A value that could not be found is zero, or nil.
type Facts struct {
	Limits          hostlimits.Snapshot `json:"limits"`
	Interfaces      []Interface         `json:"interfaces"` // that are up
	UsableMemory    int64               `json:"memory"`     // bytes that this process may use
	AvailableMemory int64               `json:"available"`  // bytes of it that are free
	MaxOpenFiles    uint64              `json:"open_files"` // limit of a process
	Clock           *Clock              `json:"clock,omitempty"`
	RemoteClock     *RemoteClock        `json:"remote_clock,omitempty"` // nil: not asked
	Path            *Path               `json:"path,omitempty"`         // nil: not asked
	Ports           []Port              `json:"ports"`
	Directories     []Directory         `json:"places"`
	Certs           []Certificate       `json:"certificates,omitempty"` // nil: not asked
}

// Certificate is a certificate that the services show or trust.
type Certificate struct {
	Name       string    `json:"name"` // empty: Err is about all of them
	NotAfter   time.Time `json:"ends"`
	RemainingS float64   `json:"left_s"` // seconds until then, at the time of reading
	Err        string    `json:"error,omitempty"`
}

// Interface is a network interface that is up.
type Interface struct {
	Name     string `json:"name"`
	MTU      int    `json:"mtu"`
	Loopback bool   `json:"loopback"`
}

// Clock is the state of the kernel's clock.
type Clock struct {
	Synchronised bool  `json:"synchronised"`
	MaxErrorUS   int64 `json:"max_error_us"`
}

// RemoteClock is another host's clock.
type RemoteClock struct {
	URL           string `json:"url"`
	OffsetUS      int64  `json:"offset_us"` // how far it is ahead of this host's clock
	UncertaintyUS int64  `json:"uncertainty_us"`
	Err           string `json:"error,omitempty"`
}

// Path is the way to a peer. Sizes are those of IP packets, bytes.
type Path struct {
	Peer            string `json:"peer"`
	Address         string `json:"address"`
	Routed          bool   `json:"routed"`               // none of this host's networks has it: a router is between
	InterfaceMTU    int    `json:"local"`                // MTU of this host's interface, up to the largest size tried
	LargestArrived  int    `json:"largest"`              // largest packet that arrived; 0: none
	NetworkReported bool   `json:"told"`                 // the network reports larger packets; else it loses them silently
	Answered        bool   `json:"answered"`             // the peer reports that a small packet has arrived
	RefusedBy       string `json:"refused_by,omitempty"` // router or firewall that refuses packets in the peer's place
	Err             string `json:"error,omitempty"`
}

// Port is a port that a service will bind.
type Port struct {
	Name  string `json:"name"` // 7946/udp
	InUse bool   `json:"taken"`
	Err   string `json:"error,omitempty"` // why else it could not be bound
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

// Wants is what a configuration needs of the host. The zero value means that there is no configuration.
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

// WantsOf says what the nodes of a completed configuration need on one host. nodes is how many are on this host; 0
// means all, or one if the configuration names the members, which makes it a cluster.
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
	for _, m := range needs[:w.LocalNodes] { // which of them are here is not known: take the largest
		w.SharedMemory += m.Shared()
		w.Memory += m.Total()
	}
	return w, nil
}
