// Package faultpoint lets a test kill this process at a named durable edge.
//
// A point is declared once, beside the edge, and hit on every pass. In production a hit costs one nil check. When the
// environment variable WORKFLOWD_FAULTPOINT names the point (optionally "name:N" for the Nth hit), the process ends there
// by SIGKILL: no deferred call, no flush, exactly what a crash leaves behind.
package faultpoint

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Env is the variable that arms one point.
const Env = "WORKFLOWD_FAULTPOINT"

// Point is one durable edge. It is safe for concurrent use.
type Point struct {
	name string
	left atomic.Int64 // hits left before the kill; 0 = disarmed
}

var (
	mu     sync.Mutex
	points = map[string]*Point{}
)

// New declares the point name, once per program. It panics when the name is taken: two edges must not share one.
func New(name string) *Point {
	mu.Lock()
	defer mu.Unlock()
	if points[name] != nil {
		panic("faultpoint: " + name + " declared twice")
	}
	p := &Point{name: name}
	if want, count, found := strings.Cut(os.Getenv(Env), ":"); want == name {
		n := 1
		if found {
			if v, err := strconv.Atoi(count); err == nil && v > 0 {
				n = v
			}
		}
		p.left.Store(int64(n))
	}
	points[name] = p
	return p
}

// Hit kills the process when the point is armed and this is the counted hit.
func (p *Point) Hit() {
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
