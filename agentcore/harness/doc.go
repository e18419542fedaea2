// Package harness is the agent loop as durable tasks on a session.
//
// A turn is a chain of generation tasks. Each makes one model request and ends in one of these ways; every arrow is one
// commit, and what is shown leaves only after it.
//
//	submission ─admit─▶ generation(request)
//	                        │ answer            assistant entry, submission answered
//	                        │ calls             assistant entry + tool intents, generation waits
//	                        │                       └▶ tool tasks ─last result─▶ next generation, prepared
//	                        │ died with output  interrupted entry + continuation prompt, next generation
//	                        │ died without      generation(retry) sleeps, sends the same request again
//	                        └ no way on         submission unanswered with reason and detail
//
// A tool round costs two commits when nothing has to be approved: the assistant's entry with its intents, then the last
// result with the next request prepared. Text is committed while it streams; deltas wait for the commit that holds them.
//
// The package is public because agentcore is built from it; its API may change.
package harness
