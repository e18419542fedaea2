package outputitems

// Sizes are bounds against abuse, far above what the product makes: a tool's output is 50 KiB (design section 4), a session
// snapshot some 100 KiB.
const (
	// MaxContentBytes bounds the text, or the JSON, of one item.
	MaxContentBytes = 8 << 20
	// MaxMetadataBytes bounds the further members of one item's metadata, names and values together.
	MaxMetadataBytes = 1 << 20
	// MaxIDBytes bounds an item's id. Hosts may choose ids (spec create-agent-node "outputItemId"); our own have 30 bytes.
	MaxIDBytes = 256
	// MaxUnitBytes bounds the unit of a ring.
	MaxUnitBytes = 32
	// MaxWireBytes bounds the JSON of one item or chunk: escapes can make text six times as long.
	MaxWireBytes = 6*(MaxContentBytes+MaxMetadataBytes) + 16*MaxIDBytes
)
