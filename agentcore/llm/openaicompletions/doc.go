// Package openaicompletions is the llm.Provider for the Chat Completions protocol and the many endpoints that imitate it.
//
// Two pure halves meet in Provider.Stream: encode turns a history into the request body, and decoder turns the events of
// the body into stream events. The rules of the second half:
//
//	data chunk ─▶ choice 0 ─▶ text, thinking, refusal: one open block, closed when the kind changes
//	                     └─▶ calls: open until the end, told apart by index, id and name (calls.go)
//	[DONE], or end of body behind a finish reason ─▶ Done
//	error frame, error line, end of body before that ─▶ *llm.Error
//
// The index of a block is its position in Done.Message.Blocks. Unknown fields and values of unexpected types are passed
// over; text that is not JSON is an error.
package openaicompletions
