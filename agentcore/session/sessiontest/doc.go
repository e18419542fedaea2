// Package sessiontest proves a session.Storage. Whoever writes one calls Run and Oracle from a test:
//
//	sessiontest.Run(t, open)    the contract, case by case; all of it a second time on a store reopened after every commit
//	sessiontest.Oracle(t, open) random batches against the memory store, every read compared after every step
package sessiontest
