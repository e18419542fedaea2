package tool

// MaxEchoBytes bounds how much of refused arguments an error repeats to the model: enough to recognise the call, too
// little to fill the context. Source: bounded output, design section 4.
const MaxEchoBytes = 2 << 10

// MaxNameBytes is the longest tool name that every provider accepts. Source: the wire rules of the three protocols.
const MaxNameBytes = 64

// maxExactInt is the largest integer that survives a float64, the number type of JSON at most providers.
const maxExactInt = 1 << 53
