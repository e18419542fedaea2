// Package outputitems is what a user sees of a run, as data: items, and the chunks that build them up.
//
// An Item is one row, answer, notice or gauge. A Chunk is one step of one item's life:
//
//	             append, set          append: text at a byte offset
//	              ┌──────┐            set:    content, metadata (merged) or an open status
//	open ──▶ running ⇄ waiting ──done──▶ completed, failed, interrupted, cancelled
//	  └────────────────────────────────▶ an item may also be opened closed: notices, errors
//
// Chunks are delivered at least once, in the order of their item. The Accumulator folds them and gives the same items when
// any part of the stream comes again: a repeat changes nothing, a gap or a contradiction is an *ApplyError. Streams of
// different items may interleave freely; items keep the order in which they were opened.
//
// Metadata says what an item is (kind, partType, plan: fixed when it is opened) and carries further members of its producer
// untouched. Display says how a host presents it without knowing the producer. The sets of kinds, part types, statuses,
// operations, content types, displays and placements are closed: other words are refused when JSON is decoded.
//
// Item, Chunk, JSON and Metadata marshal to exactly the wire form of the design; decoding is strict and gives an *Error with
// a JSON pointer.
//
// Source: spec create-agent-node "Output items", design 3.4.
package outputitems
