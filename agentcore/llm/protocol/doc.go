// Package protocol is what the wire protocols of llm share, so that each of them is only its own words.
//
// A protocol has two pure halves: an encoder, which turns a request into a body, and a Decoder, which turns the events of
// the answer into stream events. Endpoint carries the one and feeds the other over a single HTTP round trip:
//
//	history ─▶ Steps ─▶ encoder ─▶ Endpoint.Stream ─▶ sse.Reader ─▶ Decoder ─▶ Response ─▶ llm.StreamEvent
//
// Endpoint owns the connection: cancelling, the idle limit, error responses, secrets. Response owns the rules of a stream:
// blocks in order, one terminal event, errors that say what had been produced. Steps repairs a history: each call has one
// result, in the right place, under an id that the endpoint takes.
package protocol
