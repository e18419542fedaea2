package outputitems

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the wire form: $defs/item and $defs/chunk, for documents that must describe
// them, as the types encode themselves. Its enumerations are the closed sets of this package. The bytes belong to the caller.
// Source: P-662.
func Schema() []byte { return bytes.Clone(schema) }
