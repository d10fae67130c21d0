package event

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz/lzma"
)

// Compressed records, docs/format/mdf.md, "Compression": the payload is one block as ROOT's library writes it.
const (
	blockHeadBytes = 9         // bytes of a block's head: two letters, method, size in the file, size unpacked
	maxBlockBytes  = 1<<24 - 1 // largest block in bytes, in the file or unpacked: each size field has three bytes
	// level in the header's compression byte: 0 none, 1 to 9; the other bits are roughly the gain
	compressionLevelMask = 0xF
	maxLevel             = 9

	lz4Sum      = 8   // bytes of the checksum in front of LZ4 data
	lz4Gain     = 255 // how many bytes one byte of LZ4 can unpack to
	unpackChunk = 64 << 10
)

// packMethods are the methods of compression, by the two letters at the start of a block.
var packMethods = map[string]struct {
	name string
	open func(d *decoders, packed []byte, size int) (io.Reader, error)
}{
	"ZL": {"zlib", (*decoders).zlib},
	"XZ": {"lzma", (*decoders).lzma},
	"L4": {"lz4", (*decoders).lz4},
	"ZS": {"zstd", (*decoders).zstd},
	"CS": {"zlib of old", nil},
}

// decoders are reused from record to record, since they are costly to make.
type decoders struct {
	inflate io.ReadCloser
	zst     *zstd.Decoder
}

var decodersPool = sync.Pool{New: func() any { return &decoders{} }}

func (d *decoders) zlib(packed []byte, _ int) (_ io.Reader, err error) {
	if d.inflate == nil {
		d.inflate, err = zlib.NewReader(bytes.NewReader(packed))
		return d.inflate, err
	}
	again, _ := d.inflate.(zlib.Resetter) // the manual of compress/zlib promises it
	return d.inflate, again.Reset(bytes.NewReader(packed), nil)
}

func (d *decoders) zstd(packed []byte, _ int) (_ io.Reader, err error) {
	if d.zst == nil {
		d.zst, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxBlockBytes+1), zstd.WithDecoderMaxWindow(maxBlockBytes+1))
		if err != nil {
			return nil, err
		}
	}
	return d.zst, d.zst.Reset(bytes.NewReader(packed))
}

// lzma reads the first block of an xz file. The xz header claims a dictionary of up to 4 GiB; lzma takes one of the
// unpacked size, since no reference can reach farther back than the bytes unpacked before it. It does not check the
// checksums of xz: the record has its own.
func (d *decoders) lzma(packed []byte, size int) (io.Reader, error) {
	const magic, head = "\xfd7zXZ\x00", 12
	if len(packed) <= head || string(packed[:len(magic)]) != magic {
		return nil, errors.New("it is no file of xz")
	}
	block := packed[head:]
	if n := 4 * (int(block[0]) + 1); n < len(block) && block[1]&0x3 == 0 { // one filter: LZMA2
		return lzma.Reader2Config{DictCap: max(size, lzma.MinDictCap)}.NewReader2(bytes.NewReader(block[n:]))
	}
	return nil, errors.New("its first block is not one of LZMA2 alone")
}

func (d *decoders) lz4(packed []byte, size int) (io.Reader, error) {
	if len(packed) < lz4Sum {
		return nil, io.ErrUnexpectedEOF
	}
	data := packed[lz4Sum:]
	if binary.BigEndian.Uint64(packed) != xxhash.Sum64(data) {
		return nil, errors.New("its checksum is wrong")
	}
	if size > lz4Gain*len(data) {
		return nil, io.ErrUnexpectedEOF
	}
	out := make([]byte, size)
	n, err := lz4.UncompressBlock(data, out)
	return bytes.NewReader(out[:max(n, 0)]), err
}

// isCompressed says whether the payload is compressed.
func (r Record) isCompressed() bool { return r.compression()&compressionLevelMask != 0 }

// Unpacked is the record without compression: r itself if it is not compressed. Otherwise it is a new record in *buf,
// which grows as needed, valid until *buf is used again; its header has the new sizes, compression 0 and, if r stores a
// checksum, a new checksum. The error is a *FormatError of kind errPacked, ErrSize, ErrTruncated or ErrUnsupported. A
// record unpacks to at most 16 MiB.
func (r Record) Unpacked(buf *[]byte) (Record, error) {
	if !r.isCompressed() {
		return r, nil
	}
	if r.HeaderSize() > len(r) { // the bytes have changed since ParseRecord
		return nil, newFormatError(ErrSize, FormatMDF, "sub-header length", 17,
			"a header of %d bytes does not fit the record of %d",
			r.HeaderSize(), len(r))
	}
	out, err := r.unpack(append((*buf)[:0], r.Header()...))
	*buf = out
	if err != nil {
		return nil, err
	}
	for at := 0; at < 12; at += 4 {
		binary.LittleEndian.PutUint32(out[at:], uint32(len(out)))
	}
	out[16] = 0
	if r.StoredChecksum() != 0 {
		binary.LittleEndian.PutUint32(out[12:], MDFChecksum(out[MDFChecksumFrom:]))
	}
	return Record(out), nil
}

// unpack appends the unpacked bytes of the block behind the header.
func (r Record) unpack(dst []byte) ([]byte, error) {
	at, b := r.HeaderSize(), r.Payload()
	if level := r.compression() & compressionLevelMask; level > maxLevel {
		return dst, newFormatError(ErrUnsupported, FormatMDF, "compression", 16,
			"kind %d is not known: write the file with one of 0 "+
				"to %d, or without compression", level, maxLevel)
	}
	if len(b) < blockHeadBytes {
		return dst, newFormatError(ErrTruncated, FormatMDF, "compressed banks", at,
			"%d bytes do not hold the %d that stand in front "+
				"of compressed data", len(b), blockHeadBytes)
	}
	method, known := packMethods[string(b[:2])]
	if method.open == nil {
		name := method.name
		if !known {
			name = strconv.Quote(string(b[:2]))
		}
		return dst, newFormatError(ErrUnsupported, FormatMDF, "compressed banks", at,
			"their compression is not read (%s): write the "+
				"file without compression, or with zlib, lzma, lz4 or zstd", name)
	}
	packed, size := int(u24(b[3:])), int(u24(b[6:]))
	b = b[blockHeadBytes:]
	if packed != len(b) {
		return dst, newFormatError(ErrSize, FormatMDF, "compressed banks", at+3,
			"their head claims %d bytes of %s, the "+
				"record has %d", packed, method.name, len(b))
	}
	d, _ := decodersPool.Get().(*decoders)
	defer decodersPool.Put(d)
	from, err := method.open(d, b, size)
	if err == nil {
		dst, err = appendExactly(dst, from, size)
	}
	switch {
	case errors.Is(err, errMore):
		return dst, newFormatError(ErrSize, FormatMDF, "compressed banks", at+6,
			"more than the %d bytes that their head claims "+
				"come out of the %s", size, method.name)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return dst, newFormatError(ErrTruncated, FormatMDF, "compressed banks", at+6,
			"fewer than the %d bytes that their head "+
				"claims come out of the %s", size, method.name)
	case err != nil:
		return dst, newFormatError(errPacked, FormatMDF, "compressed banks", at, "the %s cannot be unpacked: %v", method.name,
			err)
	}
	return dst, nil
}

var errMore = errors.New("more than was said")

// appendExactly appends size bytes, behind which from must end: else errMore. Memory grows with the bytes that arrive,
// and not with the claimed size.
func appendExactly(dst []byte, from io.Reader, size int) ([]byte, error) {
	for end := len(dst) + size; len(dst) < end; {
		dst = slices.Grow(dst, min(end-len(dst), unpackChunk))
		n, err := io.ReadFull(from, dst[len(dst):min(end, cap(dst))])
		if dst = dst[:len(dst)+n]; err != nil {
			return dst, err
		}
	}
	switch n, err := io.ReadFull(from, make([]byte, 1)); {
	case n > 0:
		return dst, errMore
	case !errors.Is(err, io.EOF):
		return dst, err
	}
	return dst, nil
}

func u24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }
