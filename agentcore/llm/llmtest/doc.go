// Package llmtest proves that a provider keeps the contract of llm.Provider.
//
// Run takes a constructor of providers that talk to a scripted model, over whatever transport, and checks what every
// caller relies on: one terminal event or one typed error, never both; blocks in order, whose deltas add up; and that
// leaving the loop or ending the context releases the connection before the sequence returns.
package llmtest
