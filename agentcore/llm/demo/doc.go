// Package demo is the built-in model: a script, not a language model, for trying the product without a key or a network.
//
// It looks at each request and answers over the real Chat Completions wire, in process. It calls the tools that it is
// offered, so what it quotes comes from the user's own files. Each finished answer says who wrote it and how to use a real
// model. The story of a turn:
//
//	ls ─▶ find + grep ─▶ read, read ─▶ write, bash (build mode, when the prompt asks) ─▶ submit_answer, or the final text
//
// Where it stands in the story follows from the messages of the request alone: what was called since the newest message
// of the user, and what is already there of the answer. A continuation prompt therefore gets exactly the rest, and a
// process that starts again goes on where the old one was. Equal requests get equal bytes.
//
// It understands `write FILE: TEXT` and "run `COMMAND`", any number of them in one prompt. Without them it searches for
// the words of the prompt and quotes what it found; in plan mode it writes a plan.
package demo
