package schema

// Bounds of what an error text shows. They keep a wrong call from flooding the context of a model; the source is the
// general rule of bounded output, design section 4.
const (
	MaxViolations   = 20  // violations listed in one Error; the rest is counted
	MaxMessageBytes = 400 // bytes of one violation's message
)
