package certs

import "testing"

// A handshake that gets no answer is not taken for a refusal, nor a refusal for a path.
func TestUnanswered(t *testing.T) {
	for words, want := range map[string]bool{
		`connection error: desc = "transport: authentication handshake failed: context deadline exceeded"`: true,
		"authentication handshake failed: read tcp 10.0.0.1:1->10.0.0.2:2: i/o timeout":                    true,
		"authentication handshake failed: remote error: tls: bad certificate":                              false,
		"dial tcp 10.0.0.1:1: connect: connection refused":                                                 false,
		"context deadline exceeded": false,
	} {
		if got := ExplainUnanswered(words); got != "" != want {
			t.Errorf("%s: %q", words, got)
		}
	}
}
