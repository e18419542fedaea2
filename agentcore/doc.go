// Package agentcore is an agent over a durable session: one object that gathers input, model loop, tools, plan approval
// and recovery, so that a caller gives a prompt and ranges over events.
//
//	a, err := agentcore.New(ctx, agentcore.Options{DatabasePath: "s.db", Model: "…", BaseURL: "…"})
//	for event, err := range a.Run(ctx, agentcore.Input{RequestID: "r1", Prompt: "…"}, nil) { … }
//	a.Close()
//
// Everything is committed before it is shown. Reopening the same file and repeating the RequestID continues where the
// work stopped; a finished turn is told again from the record without asking model or tools. Always call Close.
//
// The package is a library of its own: it knows nothing of workflows, runs or conversations.
package agentcore
