package histogram

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"math"
	"sync"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// The cookies of the format, version 2: compressedCookie begins the whole, plainCookie the text inside it. 0x10: words
// have up to nine bytes.
const (
	compressedCookie = uint32(hdr.V2CompressedEncodingCookieBase | 0x10)
	plainCookie      = uint32(hdr.V2EncodingCookieBase | 0x10)
	headerBytes      = 40
)

// encoder is the memory of one call of Encode, reused by later calls.
type encoder struct {
	text []byte
	out  bytes.Buffer
	zip  *zlib.Writer
}

var encoders = sync.Pool{New: func() any {
	zip, err := zlib.NewWriterLevel(nil, zlib.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a level
	}
	return &encoder{zip: zip}
}}

// Encode is a histogram in the format that the library calls V2 compressed, in base64.
func Encode(h *hdr.Histogram) []byte {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.encode(h.Export())
	e.out.Reset()
	e.out.Write(make([]byte, 8))
	e.zip.Reset(&e.out)
	_, _ = e.zip.Write(e.text) // to memory, which cannot fail; nor can Close
	_ = e.zip.Close()
	encoded := e.out.Bytes()
	binary.BigEndian.PutUint32(encoded, compressedCookie)
	binary.BigEndian.PutUint32(encoded[4:], uint32(len(encoded)-8))
	return base64.StdEncoding.AppendEncode(nil, encoded)
}

// encode writes the text that Encode compresses: a head, and the counts up to the last that is not 0. The number -n
// stands for n counts of 0.
func (e *encoder) encode(s *hdr.Snapshot) {
	counts := s.Counts
	for len(counts) > 1 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	e.text = append(e.text[:0], make([]byte, headerBytes)...)
	for i := 0; i < len(counts); {
		zeros := i
		for zeros < len(counts) && counts[zeros] == 0 {
			zeros++
		}
		switch n := zeros - i; n {
		case 0:
			e.appendVarint(counts[i])
			i++
		case 1:
			e.appendVarint(0)
			i++
		default:
			e.appendVarint(int64(-n))
			i = zeros
		}
	}
	head := e.text[:headerBytes]
	binary.BigEndian.PutUint32(head, plainCookie)
	binary.BigEndian.PutUint32(head[4:], uint32(len(e.text)-headerBytes))
	binary.BigEndian.PutUint32(head[12:], uint32(s.SignificantFigures))
	binary.BigEndian.PutUint64(head[16:], uint64(s.LowestTrackableValue))
	binary.BigEndian.PutUint64(head[24:], uint64(s.HighestTrackableValue))
	binary.BigEndian.PutUint64(head[32:], math.Float64bits(s.IntegerToDoubleConversionRatio))
}

// longWord is how many bytes of seven bits a nine-byte word has before its last byte, which has eight bits.
const longWord = 8

// appendVarint appends a number: its sign in the lowest bit (zigzag), seven bits a byte, the lowest first.
func (e *encoder) appendVarint(v int64) {
	u := uint64(v<<1 ^ v>>63)
	for n := 0; u >= 0x80 && n < longWord; n++ {
		e.text = append(e.text, byte(u)|0x80)
		u >>= 7
	}
	e.text = append(e.text, byte(u))
}
