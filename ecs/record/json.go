package record

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// JSON returns a record for export: protobuf's JSON with the field names of ecs.proto, always the same bytes for the
// same record.
func JSON(r *ecsv1.Run) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record: run %d: %w", r.GetNumber(), err)
	}
	// protojson adds spaces at random, and users compare records with diff.
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, fmt.Errorf("record: run %d: %w", r.GetNumber(), err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
