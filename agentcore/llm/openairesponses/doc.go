// Package openairesponses is the llm.Provider for the OpenAI Responses protocol and the endpoints that imitate it.
//
// encode turns a history into the request body, decoder turns the events of the body into stream events:
//
//	response.created ─▶ output_item.added, deltas and .done per output_index ─▶ output_item.done ─▶ response.completed, .incomplete ─▶ Done
//	error, response.failed, end of body before the terminal event ─▶ *llm.Error
//
// Items are told apart by output_index, because some endpoints change the ids with every event. What is final beats what
// was streamed, and what was never streamed is taken from the final item, or from the final response. A message becomes a
// block per part of its content, reasoning one Thinking block that holds the whole item for replay, a call one ToolCall;
// what the provider did itself (searches, code, kinds not known here) becomes a Native block that holds the item verbatim.
//
// Nothing is stored at the provider: reasoning travels encrypted with the history.
package openairesponses
