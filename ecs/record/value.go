package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"
)

// A value in the file is an envelope of 8 bytes and the payload. See docs/format/record.md.
const (
	valueVersion = 1
	envelopeSize = 8
)

// valueKind is the kind of a value, so that a value in the wrong place is detected.
type valueKind uint8

const (
	kindSummary valueKind = 1 // of a run: the fields that lists show
	kindDetails valueKind = 2 // of a run: the other fields
	kindEvent   valueKind = 3
	kindAudit   valueKind = 4
	kindMemory  valueKind = 5 // bytes of the caller of Remember
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C of the head of the envelope, the key and the payload.
func checksum(head, key, payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli, head)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, payload)
}

// sealValue puts a payload into its envelope.
func sealValue(k valueKind, key, payload []byte) []byte {
	v := make([]byte, envelopeSize, envelopeSize+len(payload))
	v[0], v[1] = valueVersion, byte(k)
	binary.LittleEndian.PutUint32(v[4:], checksum(v[:4], key, payload))
	return append(v, payload...)
}

// openValue checks the envelope of a value and returns the payload, which aliases v.
func openValue(k valueKind, key, v []byte) ([]byte, error) {
	switch {
	case len(v) < envelopeSize:
		return nil, fmt.Errorf("it has %d bytes, fewer than its envelope", len(v))
	case v[0] != valueVersion:
		return nil, fmt.Errorf("it has version %d, and %d is known", v[0], valueVersion)
	case valueKind(v[1]) != k || v[2] != 0 || v[3] != 0:
		return nil, fmt.Errorf("it is of kind %d.%d.%d, and kind %d belongs here", v[1], v[2], v[3], k)
	}
	payload := v[envelopeSize:]
	if want, has := binary.LittleEndian.Uint32(v[4:]), checksum(v[:4], key, payload); want != has {
		return nil, fmt.Errorf("its checksum is %08x, and its bytes give %08x", want, has)
	}
	return payload, nil
}

// encode marshals a message into a value.
func encode(k valueKind, key []byte, m proto.Message) ([]byte, error) {
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return sealValue(k, key, payload), nil
}

// decode unmarshals a value into a message.
func decode(k valueKind, key, v []byte, m proto.Message) error {
	payload, err := openValue(k, key, v)
	if err != nil {
		return err
	}
	return proto.Unmarshal(payload, m)
}

// Keys are big-endian, so that the order of keys is that of numbers.
func runKey(n uint32) []byte      { return binary.BigEndian.AppendUint32(nil, n) }
func sequenceKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
