// Package faultpoint lets a test kill this process at a named durable edge.
//
// A point is declared once, beside the edge, and hit on every pass. In production a hit costs one nil check. When the
// environment variable WORKFLOWD_FAULTPOINT names the point (optionally "name:N" for the Nth hit), the process ends there
// by SIGKILL: no deferred call, no flush, exactly what a crash leaves behind.
//
// WORKFLOWD_FAULTPOINT_LOG names a file that every hit appends a line to, so that a test learns which points a run passes
// and how often.
package faultpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Env is the variable that arms one point, LogEnv the one that names the file of hits: "pid name detail", one a line.
const (
	Env    = "WORKFLOWD_FAULTPOINT"
	LogEnv = "WORKFLOWD_FAULTPOINT_LOG"
)

// Point is one durable edge. It is safe for concurrent use.
type Point struct {
	name    string
	watched bool         // armed or logged; never changes
	left    atomic.Int64 // hits left before the kill; 0 = disarmed
}

var (
	mu     sync.Mutex
	points = map[string]*Point{}
	log    = openLog(os.Getenv(LogEnv))
)

// filePerm is of the log of hits.
const filePerm = 0o600

func openLog(name string) *os.File {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, filePerm)
	if err != nil {
		panic("faultpoint: " + err.Error()) // a test asked for the log: without it it would prove nothing
	}
	return f
}

// New declares the point name, once per program. It panics when the name is taken: two edges must not share one.
func New(name string) *Point {
	mu.Lock()
	defer mu.Unlock()
	if points[name] != nil {
		panic("faultpoint: " + name + " declared twice")
	}
	p := &Point{name: name, watched: log != nil}
	if want, count, found := strings.Cut(os.Getenv(Env), ":"); want == name {
		n := 1
		if found {
			if v, err := strconv.Atoi(count); err == nil && v > 0 {
				n = v
			}
		}
		p.left.Store(int64(n))
		p.watched = true
	}
	points[name] = p
	return p
}

// Hit kills the process when the point is armed and this is the counted hit.
func (p *Point) Hit() { p.HitBy("") }

// HitBy is Hit with what it was hit by, one word, for the log.
func (p *Point) HitBy(what string) {
	if !p.watched {
		return
	}
	if log != nil {
		if _, err := fmt.Fprintf(log, "%d %s %s\n", os.Getpid(), p.name, what); err != nil { // one write: lines never mix
			panic("faultpoint: " + err.Error())
		}
	}
	if p.left.Load() > 0 && p.left.Add(-1) == 0 {
		die()
	}
}

// Names lists every point declared in this program, sorted. The crash matrix walks it, so a new point is covered at once.
func Names() []string {
	mu.Lock()
	defer mu.Unlock()
	names := make([]string, 0, len(points))
	for n := range points {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
