// Package userinput is what a node asks of people: the request, its options, and the answers that have a form of their own.
//
// workflow.Ask makes a request from a Go type and gives the answer as one; NodeContext.UserInput takes any Request.
package userinput
