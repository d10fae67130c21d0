package rootzip

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"ringlet/testkit/must"
)

// Packer compresses data to a block.
type Packer func(t must.TB, data []byte) []byte

// Packers are the compressions that Ringlet reads, in the order zlib, lzma, lz4, zstd.
func Packers() []Packer { return []Packer{Zlib, LZMA, lz4Block, zstdFrame} }

// Record is an MDF record with the header of plain, of header bytes, and the payload block. It sets sizes and
// compression, and stores no checksum.
func Record(plain []byte, header int, block []byte) []byte {
	b := append(bytes.Clone(plain[:header]), block...)
	for at := 0; at < 12; at += 4 {
		binary.LittleEndian.PutUint32(b[at:], uint32(len(b)))
	}
	clear(b[12:16])
	b[16] = 6
	return b
}

// Zlib is the compression that LHCb uses.
func Zlib(t must.TB, data []byte) []byte {
	return written(t, "ZL\x08", data, func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil })
}

// LZMA makes a block with an xz file.
func LZMA(t must.TB, data []byte) []byte {
	return written(t, "XZ\x00", data, func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) })
}

// zstdFrame makes a block with a zstd frame.
func zstdFrame(t must.TB, data []byte) []byte {
	return written(t, "ZS\x01", data, func(w io.Writer) (io.WriteCloser, error) {
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	})
}

// lz4Block makes a block with a checksum and an LZ4 block.
func lz4Block(t must.TB, data []byte) []byte {
	t.Helper()
	out := make([]byte, lz4.CompressBlockBound(len(data)))
	n, err := new(lz4.Compressor).CompressBlock(data, out)
	must.OK(t, err)
	return block("L4\x01", append(binary.BigEndian.AppendUint64(nil, xxhash.Sum64(out[:n])), out[:n]...), len(data))
}

func written(t must.TB, mark string, data []byte, open func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	must.OK(t, err)
	_, err = w.Write(data)
	must.OK(t, err)
	must.OK(t, w.Close())
	return block(mark, b.Bytes(), len(data))
}

func block(mark string, packed []byte, size int) []byte {
	out := append([]byte(mark), littleEndian24(len(packed))...)
	return append(append(out, littleEndian24(size)...), packed...)
}

func littleEndian24(n int) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16)} }
