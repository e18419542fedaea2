// Package control is the language in which a client steers a session: commands, their JSON, and the receipts they leave.
//
//	JSON ──Decode──▶ Command (a sealed sum) ──▶ who owns the session ──▶ Receipt
//
// A command is plain data: nothing in it can bring code into the process. Every command brings its own request id, the same
// on each transmission: the first receipt comes back then, and the same id with other content is a conflict.
package control
