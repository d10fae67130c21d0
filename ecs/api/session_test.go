package api

import (
	"strings"
	"testing"
	"time"
)

func TestSessions(t *testing.T) {
	now := time.Unix(1000, 0)
	var s sessions
	if _, err := s.redeem("", now); err == nil {
		t.Error("nothing opens a session before there is a token")
	}
	token := s.newToken()
	if _, err := s.redeem(token+"x", now); err == nil {
		t.Error("a wrong token opens one")
	}
	word, err := s.redeem(token, now)
	if err != nil || word == token {
		t.Fatalf("%q, %v", word, err)
	}
	if _, err := s.redeem(token, now); err == nil || !strings.Contains(err.Error(), "used already") {
		t.Errorf("the token serves twice: %v", err)
	}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{sessionLife, true}, {sessionLife, true}, {sessionLife + 1, false}, {0, false}} {
		if now = now.Add(c.after); s.renewIfOpen(word, now) != c.want {
			t.Errorf("%v after its last use: valid is %v", c.after, !c.want)
		}
	}
	if s.renewIfOpen("", now) || s.renewIfOpen(token, now) {
		t.Error("what is no session is valid")
	}
	first, second := s.newToken(), s.newToken()
	if _, err := s.redeem(first, now); err == nil {
		t.Error("a token is good though there is a newer one")
	}
	if _, err := s.redeem(second, now); err != nil {
		t.Error(err)
	}
}

func TestTheOldestSessionIsEvicted(t *testing.T) {
	var s sessions
	var words []string
	for i := range maxSessions + 1 {
		word, err := s.redeem(s.newToken(), time.Unix(int64(i), 0))
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, word)
	}
	now := time.Unix(maxSessions, 0)
	if s.renewIfOpen(words[0], now) || !s.renewIfOpen(words[1], now) || !s.renewIfOpen(words[maxSessions], now) ||
		len(s.lastUsed) != maxSessions {
		t.Errorf("%d are open, the first is %v", len(s.lastUsed), s.renewIfOpen(words[0], now))
	}
	var restarted sessions
	restarted.restore(s.export(), now.Add(time.Minute))
	if !restarted.renewIfOpen(words[maxSessions], now) || restarted.renewIfOpen(words[0], now) {
		t.Error("not the same sessions after a restart")
	}
	restarted.restore(map[string]time.Time{"zz": now, "00": now}, now) // what is no hash is no session
	if len(restarted.lastUsed) != 0 {
		t.Error("damaged sessions are open")
	}
}

func TestLoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:7980": true, "localhost": true, "LOCALHOST:7980": true, "[::1]:7980": true,
		"[::1]": true, "127.9.9.9:1": true,
		"evil.example": false, "evil.example:7980": false, "localhost.evil.example": false,
		"127.0.0.1.evil.example:80": false, "10.0.0.1:7980": false, "": false,
	} {
		if isLoopbackHost(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}
