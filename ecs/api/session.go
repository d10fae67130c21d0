package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

const (
	// sessionLife is how long a session lasts after its last use: longer than a shift.
	sessionLife = 12 * time.Hour
	// maxSessions bounds the open sessions; a new one replaces the least recently used.
	maxSessions = 64
	// secretSize is the size of tokens and session secrets, in bytes.
	secretSize = 32
)

// newTokenMethod stands for POST /v1/session/token in the table of roles; gRPC has no such call.
const newTokenMethod = "/http/NewToken"

// newSecret returns a secret in characters that a URL may have.
func newSecret() string {
	b := make([]byte, secretSize)
	rand.Read(b) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

// sessions are the one-time token and the sessions that were opened with such tokens. Secrets are kept as hashes, so
// that the time of a look-up says nothing about them.
type sessions struct {
	mu        sync.Mutex                      // guards what follows
	tokenHash [sha256.Size]byte               // zero: the token was used
	lastUsed  map[[sha256.Size]byte]time.Time // by the hash of the session's secret
}

// newToken makes a token, which replaces an unused one.
func (s *sessions) newToken() string {
	word := newSecret()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokenHash = sha256.Sum256([]byte(word))
	return word
}

// redeem uses the token up, opens a session, and returns its secret.
func (s *sessions) redeem(token string, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokenHash == [sha256.Size]byte{} || s.tokenHash != sha256.Sum256([]byte(token)) {
		return "", &identityError{"this token is not the one that was printed last, or it was used already: each opens " +
			"one session"}
	}
	s.tokenHash = [sha256.Size]byte{}
	if s.lastUsed == nil {
		s.lastUsed = map[[sha256.Size]byte]time.Time{}
	}
	if len(s.lastUsed) >= maxSessions {
		s.dropOldest()
	}
	word := newSecret()
	s.lastUsed[sha256.Sum256([]byte(word))] = now
	return word, nil
}

func (s *sessions) dropOldest() {
	var oldest [sha256.Size]byte
	for word, used := range s.lastUsed {
		if t, ok := s.lastUsed[oldest]; !ok || used.Before(t) {
			oldest = word
		}
	}
	delete(s.lastUsed, oldest)
}

// renewIfOpen says whether a session is open, and renews it.
func (s *sessions) renewIfOpen(word string, now time.Time) bool {
	key := sha256.Sum256([]byte(word))
	s.mu.Lock()
	defer s.mu.Unlock()
	used, ok := s.lastUsed[key]
	if !ok {
		return false
	}
	if now.Sub(used) > sessionLife {
		delete(s.lastUsed, key)
		return false
	}
	s.lastUsed[key] = now
	return true
}

// cookieName has the port in it: browsers keep cookies by host, and several controls may run on one host.
func (s *Server) cookieName() string {
	_, port, _ := net.SplitHostPort(s.pageListener.Addr().String()) // a listener's address has a port
	return "ringlet-session-" + port
}

// sessionSecret is the session's secret in a request. ambient says that it is a cookie, which a browser sends without
// the page's doing.
func (s *Server) sessionSecret(r *http.Request) (word string, ambient bool) {
	if word, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return word, false
	}
	if c, err := r.Cookie(s.cookieName()); err == nil {
		return c.Value, true
	}
	return "", false
}

// openSession opens a session with a token, sets the cookie, and writes an audit entry, also for a refusal.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request, token string) (string, error) {
	c := caller{Name: unknownName, Address: r.RemoteAddr}
	if s.servesHTTPS {
		return "", &identityError{"tokens are for loopback only: give a client certificate here"}
	}
	if err := s.audit.checkWritable(); err != nil {
		return "", err
	}
	word, err := s.sessions.redeem(token, s.now())
	if err != nil {
		_ = s.audit.writeRefusal(c, "open a session", "", err)
		return "", err
	}
	c.Name, c.Role = certs.TokenUserName, ecsv1.Role_ROLE_ADMIN
	if err := s.audit.write(c, "open a session", "", nil); err != nil {
		return "", err
	}
	s.saveState()
	if s.onEntered != nil {
		s.onEntered(s.entranceURL(s.sessions.newToken()))
	}
	http.SetCookie(w, &http.Cookie{
		Name:     s.cookieName(),
		Value:    word,
		Path:     "/",
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
	return word, nil
}

// postSession is POST /v1/session {"token": "…"}.
func (s *Server) postSession(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := decode(r, &body); err != nil {
		writeError(w, err)
		return
	}
	word, err := s.openSession(w, r, body.Token)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, map[string]any{"session": word, "name": certs.TokenUserName, "role": roleName(ecsv1.Role_ROLE_ADMIN),
		"idleSeconds": int(sessionLife.Seconds())})
}

// postToken is POST /v1/session/token: a new one-time token, for the next session.
func (s *Server) postToken(w http.ResponseWriter, r *http.Request) {
	token, err := s.interceptUnary(r.Context(), nil, &grpc.UnaryServerInfo{FullMethod: newTokenMethod}, s.newToken)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, map[string]any{"token": token, "url": s.entranceURL(fmt.Sprint(token))})
}
