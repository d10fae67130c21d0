// Package secret reads the secret that two ends of a connection share, and computes the proof that an end has it:
// HMAC-SHA256 over the messages of both ends. The secret itself is never sent.
//
// A proof does not protect the data after it: an attacker who can change packets can take the connection over, and one
// who sees them can read them.
package secret
