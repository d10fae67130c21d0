package express

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"ringlet/testkit/interpreted"
)

// TestWhatIsASession: a first byte and a bit of the connection ID tell packets of sessions from all others on a socket.
func TestWhatIsASession(t *testing.T) {
	for first := range 256 {
		for _, id := range []byte{0x00, 0x7f, 0x80, 0xff} {
			want := first>>6 == 1 && id >= 0x80 // short header, fixed bit (RFC 9000, section 17.3.1)
			if got := IsSession([]byte{byte(first), id}); got != want {
				t.Errorf("first byte %#02x, ID %#02x: a session's %v, want %v", first, id, got, want)
			}
		}
	}
	if IsSession(nil) || IsSession([]byte{0x40}) {
		t.Error("nothing is a session's")
	}
	id := binary.BigEndian.AppendUint64(nil, NewSessionID(1))
	if id[0] != 0x80 {
		t.Errorf("the ID of a session is %x", id)
	}
	if ClearSessionBit(id); id[0] != 0 || id[7] != 1 {
		t.Errorf("made plain, it is %x", id)
	}
}

// openByRFC opens a packet as RFC 9001 says, by the standard library, and returns its frames and number.
func openByRFC(t *testing.T, secret, p []byte) (frames []byte, number uint32, phase byte) {
	t.Helper()
	derive := func(label string, n int) []byte { return expand(secret, label, n) }
	p = bytes.Clone(p)
	hp, err := aes.NewCipher(derive("quic hp", 16))
	if err != nil {
		t.Fatal(err)
	}
	const at = 1 + 8 // section 5.4.2: the sample is 4 bytes behind where the number begins
	mask := make([]byte, 16)
	hp.Encrypt(mask, p[at+4:at+20])
	p[0] ^= mask[0] & 0x1f
	n := int(p[0]&3) + 1
	for i := range n {
		p[at+i] ^= mask[1+i]
		number = number<<8 | uint32(p[at+i])
	}
	nonce := derive("quic iv", 12)
	for i := range 4 {
		nonce[11-i] ^= byte(number >> (8 * i))
	}
	block, err := aes.NewCipher(derive("quic key", 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	frames, err = aead.Open(nil, nonce, p[at+n:], p[:at+n])
	if err != nil {
		t.Fatal(err)
	}
	return frames, number, p[0] >> 2 & 1
}

// TestPacketsAreThoseOfTheBook opens ours as RFC 9001 says.
func TestPacketsAreThoseOfTheBook(t *testing.T) {
	for _, body := range []int{0, 3, 50, 5000} {
		x := newSealer(t, 1, 77)
		p := seal(t, x, Datagram, []byte("head"), make([]byte, body))
		frames, number, phase := openByRFC(t, secret(1), p)
		if want := append([]byte("\x30head"), make([]byte, body)...); !bytes.Equal(frames, want) || number != 77 ||
			phase != 0 {
			t.Errorf("%d bytes: packet %d, phase %d, %d bytes of frames", body, number, phase, len(frames))
		}
	}
	next := expand(secret(1), "quic ku", SecretSize)
	// A key update changes key and nonce base, and not the key of the header protection (RFC 9001, section 6).
	x := newSealer(t, 1, packetsPerKey)
	p := seal(t, x, Datagram, nil, []byte("next"))
	x.mask.apply(p)
	if p[0] != 0x43|4 {
		t.Errorf("the first byte is %#x", p[0])
	}
	k := newKey(next)
	var nonce [12]byte
	k.putNonce(&nonce, packetsPerKey)
	if got, err := k.aead.Open(nil, nonce[:], p[HeaderSize:], p[:HeaderSize]); err != nil || string(got) != "\x30next" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPacketsOpenElsewhere has an implementation in another language, over another cryptographic library (OpenSSL),
// open packets: testdata/open.py.
func TestPacketsOpenElsewhere(t *testing.T) {
	python := interpreted.Python(t, "")
	looks := exec.Command(python[0], append(python[1:], "-c", "import cryptography")...)
	if out, err := looks.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: python3 with the package cryptography (Debian: python3-cryptography) is not installed: %v %s", err,
			out)
	}
	type packet struct {
		Secret, Packet, Frames string
		Number                 uint64
		Update                 int // how many key updates came before
	}
	var all []packet
	for _, number := range []uint64{0, 1, packetsPerKey - 1, packetsPerKey, 5*packetsPerKey + 3, 1 << 32} {
		x := newSealer(t, 2, number)
		for _, size := range []int{0, 10, 1400, 8900} {
			n := x.header.number
			p := seal(t, x, Datagram, []byte("some head"), bytes.Repeat([]byte{7}, size))
			frames := append([]byte("\x30some head"), bytes.Repeat([]byte{7}, size)...)
			all = append(all, packet{
				Secret: hex.EncodeToString(secret(2)),
				Packet: hex.EncodeToString(p),
				Frames: hex.EncodeToString(frames),
				Number: n,
				Update: int(n / packetsPerKey),
			})
		}
	}
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python[0], append(python[1:], "testdata/open.py")...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	if out, err := cmd.Output(); err != nil || string(out) != "24 packets open\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// FuzzOpen gives openers whatever comes: nothing opens that was not sealed, and nothing is written beyond its place.
func FuzzOpen(f *testing.F) {
	sealed := seal(f, newSealer(f, 1, 5), Datagram, []byte("head"), make([]byte, 100))
	f.Add(sealed)
	f.Add(sealed[:Overhead+9])
	f.Add(make([]byte, Overhead))
	f.Fuzz(func(t *testing.T, in []byte) {
		o := newOpener(t, 1, 0)
		packet := bytes.Clone(in)
		if _, ok := SessionID(packet); !ok {
			return
		}
		if o.Inspect(packet) != Fresh {
			return
		}
		const capacity, mark = 64, 0xA5
		place := func(n int) []byte { return bytes.Repeat([]byte{mark}, capacity+n+capacity) }
		around := func(m []byte, n int) {
			if bytes.Count(m[:capacity], []byte{mark}) != capacity || bytes.Count(m[capacity+n:], []byte{mark}) != capacity {
				t.Fatal("bytes beside the place were written")
			}
		}
		if first, rest := o.Peek(); first != nil {
			m := place(rest)
			if v := o.OpenRest(m[capacity : capacity+rest : capacity+rest]); v == Fresh && !bytes.Equal(in, sealed) {
				t.Fatalf("%x opened", in)
			}
			around(m, rest)
			return
		}
		m := place(PlainSize(packet))
		_, _, v := o.Open(m[capacity : capacity+PlainSize(packet) : capacity+PlainSize(packet)])
		if around(m, PlainSize(packet)); v == Fresh && !bytes.Equal(in, sealed) {
			t.Fatalf("%x opened", in)
		}
	})
}
