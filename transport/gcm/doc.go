// Package gcm is AES-128-GCM (NIST SP 800-38D) at the processor's speed: with VAES and VPCLMULQDQ, which Go's
// crypto/cipher does not use, where the processor has them, and with crypto/cipher elsewhere. Seal and Open pass over
// the bytes once.
//
// The caller must never seal two messages with one key and one nonce.
//
// The package promises the same bytes as crypto/cipher for every length, alignment and overlap that crypto/cipher
// accepts; no bytes of a message that is not authentic stay in memory; it does not allocate; its time depends on
// lengths alone. docs/design/011-quic.md says why the assembly is here, how it is made and tested, and how to turn it
// off.
package gcm
