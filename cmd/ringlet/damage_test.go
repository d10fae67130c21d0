package main

import (
	"encoding/binary"
	"fmt"

	"ringlet/event"
)

// damage returns an MDF file with one record damaged, or half of any file.
func damage(file []byte, how string, record int) ([]byte, error) {
	if how == "half" {
		return file[:len(file)/2], nil
	}
	at := 0
	for range record {
		if at+event.MDFHeaderSize > len(file) {
			return nil, fmt.Errorf("there is no record %d", record)
		}
		at += int(binary.LittleEndian.Uint32(file[at:]))
	}
	bank := file[at+event.MDFHeaderSize:]
	switch how {
	case "truncate": // in the middle of its banks
		return file[:at+event.MDFHeaderSize+20], nil
	case "magic": // of its first bank, with a checksum that is right
		bank[0] ^= 0xFF
		size := int(binary.LittleEndian.Uint32(file[at:]))
		binary.LittleEndian.PutUint32(file[at+12:], event.MDFChecksum(file[at+event.MDFChecksumFrom:at+size]))
	case "sizes": // the second of the three
		file[at+4] ^= 1
	case "length": // of its first bank: it reaches beyond the record
		binary.LittleEndian.PutUint16(bank[2:], 0xFFFF)
		binary.LittleEndian.PutUint32(file[at+12:], 0)
	case "checksum":
		file[at+12] ^= 1
	case "zero": // nothing but zeros from there on
		clear(file[at:])
	default:
		return nil, fmt.Errorf("a record cannot be damaged by %q", how)
	}
	return file, nil
}
