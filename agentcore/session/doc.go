// Package session is the durable kernel: one store that changes only by atomic commits on one line.
//
// A commit may hold entries, documents, tasks, submissions and conversations; either all of it exists or none. What is
// not committed does not exist: publications leave after the commit that carries them, recovery starts from committed
// records and nothing else. The kernel knows no models: an entry is a kind and JSON.
//
//	caller ─▶ Commit(fn) ──line──▶ fn drafts on Tx ─▶ Storage.Commit(batch) ─▶ adopt in memory ─▶ publish, in order
//	                                   │ error                │ unknown effect
//	                                   ▼                      ▼
//	                               rolled back            poisoned: reopen
//
// Conversations fork at any entry they show (Tx.Fork) and are removed whole (Tx.Remove). A reader takes a snapshot or
// follows the commits of one conversation (Session.WatchConversation); one that falls behind gets a snapshot, and no commit
// waits for it.
//
// Tasks own tasks and conversations. What is at work below a task, through its conversations too, works for it (WorksFor)
// and holds it up: it is not over before (ErrOwnsWork). A conversation has a keeper, the nearest live task above it
// (Tx.Keeper). Background tasks work for nobody, and a fork belongs to nobody.
//
// One Session has one owner. Every batch carries the owner's epoch; a store whose epoch moved on refuses it whole.
package session
