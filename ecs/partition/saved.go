package partition

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// savedState is what a control that comes back must know. It is written before the nodes hear of a change that matters.
type savedState struct {
	State                    string          `json:"state"`
	OriginalConfiguration    string          `json:"asked"`         // the configuration as it was given
	Configuration            string          `json:"configuration"` // for all members
	ParticipantConfiguration string          `json:"part"`          // for those who take part
	Names                    []string        `json:"names"`
	Absent                   []absentNode    `json:"absent,omitempty"`
	Excluded                 map[string]bool `json:"excluded,omitempty"`
	View                     json.RawMessage `json:"view,omitempty"`
	Run                      uint32          `json:"run,omitempty"`    // that is not over
	Linked                   bool            `json:"linked,omitempty"` // the nodes have the links of the view
}

const savedStateKey = "partition"

// saveState writes down where the partition is.
func (c *control) saveState() {
	m := savedState{State: c.runner.Status().State.String()}
	c.mu.Lock()
	m.Excluded = c.excluded
	if l := c.loadedConfig; l != nil {
		m.OriginalConfiguration, m.Configuration = string(l.original.Effective()), string(l.cfg.Effective())
		m.Names, m.Absent = l.names, l.absent
	}
	if c.nodeSet != nil {
		cfg := c.nodeSet.Configuration()
		m.Linked = c.nodeSet.Linked()
		m.ParticipantConfiguration = string(cfg.Effective())
		if v := c.nodeSet.View(); v != nil {
			m.View, _ = protojson.Marshal(v)
		}
	}
	if c.runRecord != nil {
		m.Run = c.runRecord.GetNumber()
	}
	text, err := json.Marshal(m)
	c.mu.Unlock()
	if err != nil {
		c.log.Error("the partition would not be found again", "err", err)
		return
	}
	c.pendingWrites.saveState(text)
}

func memberNames(v *nodev1.View) []string {
	names := make([]string, len(v.GetMembers()))
	for i, m := range v.GetMembers() {
		names[i] = m.GetName()
	}
	return names
}

// decode turns the saved state into what it stands for.
func (m *savedState) decode() (*loadedConfig, config.Config, *nodev1.View, error) {
	view := &nodev1.View{}
	cfg, err := config.ParseRecorded("the configuration of the last control", []byte(m.Configuration))
	original, participantConfig := cfg, cfg
	if err == nil {
		original, err = config.ParseRecorded("the configuration that the last control was given",
			[]byte(m.OriginalConfiguration))
	}
	if err == nil && m.View != nil {
		participantConfig, err = config.ParseRecorded("the configuration of the last view",
			[]byte(m.ParticipantConfiguration))
	}
	if err == nil && m.View != nil {
		err = protojson.Unmarshal(m.View, view)
	}
	return &loadedConfig{
		original: original,
		cfg:      cfg,
		names:    m.Names,
		absent:   m.Absent,
	}, participantConfig, view, err
}
