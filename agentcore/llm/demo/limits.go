package demo

// ContextWindow is the window that the demo model declares, in tokens. Source: none; a size that real models have.
const ContextWindow = 128_000

// imageTokens is what one image counts in the usage report. Source: agentcore/tokens.
const imageTokens = 1200

// How finely answers are cut into deltas. Source: the demo must look and weigh like a real stream.
const (
	bytesPerDelta = 10
	minPlanDeltas = 120
	maxDeltas     = 200
	argsDeltas    = 3
)

// How much the demo asks for and shows.
const (
	readLines    = 120 // lines asked of one file, where the tool has such a limit
	findLimit    = 200 // files asked for
	grepLimit    = 60  // matches asked for
	searchWords  = 3   // words of a prompt that are searched for
	minWordRunes = 4   // shorter words are not searched for
	maxWordRunes = 40
	quoteRunes   = 100  // of one quoted line
	namesShown   = 5    // entries named in a sentence
	matchesShown = 5    // matches quoted in an answer
	linesShown   = 6    // lines of a result quoted in an answer
	stepsShown   = 3    // asked-for actions named one by one in a plan
	maxDepth     = 8    // nesting of a typed answer
	maxValues    = 4096 // values in a typed answer
	maxItems     = 5    // elements of a list in a typed answer
)
