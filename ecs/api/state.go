package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// stateKey is the key of savedState in the records.
const stateKey = "api"

// savedState is the API's state that outlives the process, so that users do not notice a restart: the owner of the
// control, and the hashes of open sessions with the times of their last use.
type savedState struct {
	Owner    string               `json:"owner,omitempty"`
	Role     ecsv1.Role           `json:"role,omitempty"`
	Since    time.Time            `json:"since,omitzero"`
	Sessions map[string]time.Time `json:"sessions,omitempty"`
}

// saveState writes the savedState. It is called when a session is opened or the owner changes.
func (s *Server) saveState() {
	s.saveMu.Lock()
	defer s.saveMu.Unlock()
	owner := s.service.currentOwner()
	text, err := json.Marshal(savedState{
		Owner:    owner.name,
		Role:     owner.role,
		Since:    owner.since,
		Sessions: s.sessions.export(),
	})
	if err == nil {
		err = s.records.Remember(stateKey, text)
	}
	if err != nil {
		s.log.Error("sessions and the owner of the control were not saved: a restart would lose them", "err", err)
	}
}

const lostSessionsText = "the sessions and the owner of the control are lost: users sign in, and take control again"

// loadState restores the savedState. If it cannot be read, that is logged, and users must sign in and take control
// again.
func (s *Server) loadState() {
	text, err := s.records.Recall(stateKey)
	if err != nil || text == nil {
		if err != nil {
			s.log.Error(lostSessionsText, "err", err)
		}
		return
	}
	var k savedState
	if err := json.Unmarshal(text, &k); err != nil {
		s.log.Error(lostSessionsText, "err", fmt.Errorf("the saved state: %w", err))
		return
	}
	s.service.owner = ownership{name: k.Owner, role: k.Role, since: k.Since}
	s.sessions.restore(k.Sessions, s.now())
}

// export returns the open sessions, with the time of their last use, by the hash of their secret in hex.
func (s *sessions) export() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]time.Time{}
	for word, used := range s.lastUsed {
		out[hex.EncodeToString(word[:])] = used
	}
	return out
}

// restore opens exported sessions that have not expired.
func (s *sessions) restore(list map[string]time.Time, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = map[[sha256.Size]byte]time.Time{}
	for text, used := range list {
		word, err := hex.DecodeString(text)
		if err == nil && len(word) == sha256.Size && now.Sub(used) <= sessionLife && len(s.lastUsed) < maxSessions {
			s.lastUsed[[sha256.Size]byte(word)] = used
		}
	}
}
