// Package workflowtest tests workflows: it runs one on an engine of its own, where waiting takes no time.
//
//	func TestAnExpenseIsPaid(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := workflowtest.New(t, expense)
//			run := env.Start(Expense{Amount: 120})
//			run.Question().Answer(Verdict{Pay: true})
//			if got := run.Result(); got != "paid" {
//				t.Errorf("got %q", got)
//			}
//			run.WantNodes("decide", "decide", "pay")
//		})
//	}
//
// A test drives the run from its own goroutine: Question, Result and Failure let time pass until there is something to
// say, Rest and Questions do not. Crash, CrashAfter and Restart end the process and go on behind its last commit. Stub and
// Model put something else in a node's place, by its path; the workflow stays as it is. Record and Replay keep runs of
// today for the workflow of tomorrow.
//
// # Time
//
// A test stands in a bubble of testing/synctest. Its clock begins at midnight UTC of 2000-01-01 and jumps to the next timer
// whenever all goroutines wait. So everything skips that a run can wait for: sleeps, the wait between attempts, deadlines,
// questions and signals that expire, and also what a node or an agent's provider does with package time itself. There is
// no clock to pass around, and none to forget. The test lets time pass by waiting for it, as with <-time.After(time.Hour).
//
// What a bubble asks for: t.Run and t.Parallel stand around synctest.Test, not inside. Time stands still while a goroutine
// waits for a network, a child process or a channel that was made outside, as by a package variable; a connection that
// stays open would stop it for good. Replace such nodes by Stub.
// When the test ends every goroutine must have ended: one that is blocked for ever fails the test.
package workflowtest
