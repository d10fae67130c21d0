package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
)

var (
	//go:embed openapi.swagger.json
	generated []byte
	// What HTTP has and gRPC has not: sessions, a record as a file, this document.
	//
	//go:embed openapi_http.json
	written []byte
)

// openAPI is the document of the API over HTTP: what `make proto` makes of the service, with the paths that stand
// beside it.
func openAPI() ([]byte, error) {
	var whole, more map[string]json.RawMessage
	var paths, further map[string]json.RawMessage
	for _, part := range []struct {
		text  []byte
		into  *map[string]json.RawMessage
		paths *map[string]json.RawMessage
	}{{generated, &whole, &paths}, {written, &more, &further}} {
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return nil, fmt.Errorf("the OpenAPI document: %w", err)
		}
		if err := json.Unmarshal((*part.into)["paths"], part.paths); err != nil {
			return nil, fmt.Errorf("the paths of the OpenAPI document: %w", err)
		}
	}
	maps.Copy(paths, further)
	text, err := json.Marshal(paths)
	if err != nil {
		return nil, err
	}
	whole["paths"] = text
	return json.MarshalIndent(whole, "", "  ")
}
