package scripted

import "time"

// MaxRequest is the most bytes a request body may have: larger ones get 413. Source: no product limit; four images of the
// largest accepted size and a full window fit.
const MaxRequest = 128 << 20

// BytesPerToken is the estimate behind a usage report that the script does not give. Source: durable-kernel 15.7.
const BytesPerToken = 4

// MaxChunks bounds the deltas of one step in the text form.
const MaxChunks = 1 << 20

// maxTextPace bounds durations in the text form.
const maxTextPace = time.Hour

// lastWordsRunes is how much of a message an UnplannedError quotes.
const lastWordsRunes = 120
