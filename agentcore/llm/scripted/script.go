package scripted

import (
	"fmt"
	"sync"
)

// Script decides the next response. Next is called for one request at a time, in the order of arrival; an error makes the
// request fail with status 400 and the error's text, which is how a script says that it did not plan the request.
type Script interface {
	Next(req Request) (Response, error)
}

// Func is a Script made of a function.
type Func func(req Request) (Response, error)

// Next calls f.
func (f Func) Next(req Request) (Response, error) { return f(req) }

// UnplannedError says that a request came for which the script has no response.
type UnplannedError struct {
	Request int    // number of the request, from 1
	Planned int    // how many responses the script has
	Last    string // role and first words of the request's last message
}

// Error names the request by its number and its last message.
func (e *UnplannedError) Error() string {
	return fmt.Sprintf("unplanned model request %d (the script has %d responses); last message: %s", e.Request, e.Planned, e.Last)
}

// List answers the requests one after the other. A request behind the last response fails with *UnplannedError. It is
// safe for concurrent use.
type List struct {
	mu        sync.Mutex
	responses []Response
	next      int
}

// Responses returns a List of rs.
func Responses(rs ...Response) *List { return &List{responses: rs} }

// Next returns the next response.
func (l *List) Next(req Request) (Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next >= len(l.responses) {
		return nil, &UnplannedError{Request: req.Number, Planned: len(l.responses), Last: req.lastWords()}
	}
	l.next++
	return l.responses[l.next-1], nil
}

// Left returns how many responses have not been asked for.
func (l *List) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.responses) - l.next
}
