package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
)

var (
	//go:embed openapi.swagger.json
	grpcDocument []byte
	// Calls that only HTTP has: sessions, a record as a file, this document.
	//
	//go:embed openapi_http.json
	httpDocument []byte
)

// openAPI is the OpenAPI document of the API over HTTP: the one that `make proto` generates, with the paths that only
// HTTP has.
func openAPI() ([]byte, error) {
	var document, more map[string]json.RawMessage
	var paths, further map[string]json.RawMessage
	for _, source := range []struct {
		text  []byte
		into  *map[string]json.RawMessage
		paths *map[string]json.RawMessage
	}{{grpcDocument, &document, &paths}, {httpDocument, &more, &further}} {
		if err := json.Unmarshal(source.text, source.into); err != nil {
			return nil, fmt.Errorf("the OpenAPI document: %w", err)
		}
		if err := json.Unmarshal((*source.into)["paths"], source.paths); err != nil {
			return nil, fmt.Errorf("the paths of the OpenAPI document: %w", err)
		}
	}
	maps.Copy(paths, further)
	text, err := json.Marshal(paths)
	if err != nil {
		return nil, err
	}
	document["paths"] = text
	return json.MarshalIndent(document, "", "  ")
}
