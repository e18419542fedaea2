// Package llm is the provider-neutral language of models: messages, requests, stream events, usage and errors.
//
// The seam is Provider. A provider turns one Request into a stream of events that ends in exactly one terminal event
// (Done) or in one typed *Error, never both, never neither: a connection that closes without the protocol's own end is an
// error. Providers never retry; the harness owns every budget.
//
//	Request ─▶ Provider.Stream ─▶ BlockStart, Delta…, BlockStop… ─▶ Done{Message, StopReason, Usage}
//	                          └─▶ *Error{Class, Status, RetryAfter, Dispatched, Produced}
package llm
