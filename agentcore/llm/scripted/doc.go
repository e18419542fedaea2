// Package scripted is a model that follows a script and speaks the real wires: Chat Completions, Anthropic Messages and
// OpenAI Responses, whichever a request asks for.
//
// It is the one script format of tests, the demo and benchmarks. A Script looks at each request and answers with a
// Response, a list of Steps: what the model says, which tools it calls, and which faults the wire shows. A Model serves
// the script as an http.Handler for a real server and as an http.RoundTripper without any network; both write the same
// bytes through the same writer, one event at a time. A request that the script did not plan fails loudly.
//
//	request ─▶ Script.Next ─▶ Response{Step…} ─▶ wire ─▶ ServeHTTP (server) or RoundTrip (in process)
package scripted
