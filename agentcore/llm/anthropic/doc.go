// Package anthropic is the llm.Provider for the Anthropic Messages protocol and the endpoints that imitate it.
//
// encode turns a history into the request body, decoder turns the events of the body into stream events:
//
//	message_start ─▶ content_block_start, …_delta, …_stop per index ─▶ message_delta (stop reason, usage) ─▶ message_stop ─▶ Done
//	error event, a second message_start, end of body before message_stop ─▶ *llm.Error
//
// A block of the wire is one block of the message, in the order of its start. What the provider did itself (searches, code,
// compaction, kinds not known here) becomes a Native block that holds it verbatim. Thinking keeps its signature, and text its
// citations, in Raw. Usage is cumulative: the last value of each count holds.
package anthropic
