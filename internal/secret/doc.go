// Package secret has what two ends of a connection share, and a proof that they have it: HMAC-SHA256 over what both
// have said. The secret itself is never sent.
//
// It does not promise that what follows a proof is of who gave it: who can change packets on their way can take the
// connection over, and who sees them can read them.
package secret
