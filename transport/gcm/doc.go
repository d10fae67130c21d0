// Package gcm is AES-128-GCM (NIST SP 800-38D) as fast as the processor: with VAES and VPCLMULQDQ where it has them,
// which Go's crypto/cipher does not use, and with crypto/cipher elsewhere. Seal and Open go over the bytes once.
//
// What the caller must do: never seal two messages with one key and one nonce.
//
// What it promises: the same bytes as crypto/cipher for every length, alignment and overlap that crypto/cipher takes;
// nothing of a message that is not authentic stays in memory; no allocation; the time taken depends on lengths alone.
// docs/design/011-quic.md says why the assembly is here, how it is made and tested, and how to turn it off.
package gcm
