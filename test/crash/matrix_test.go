//go:build unix

package crash

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/workflowd/workflowd/internal/faultpoint"
)

// Pauses between the model's words: so short that a trial is quick, and long enough that answers are committed in pieces.
const pace = "1ms"

// baseline is a scenario that nobody disturbs.
type baseline struct {
	s      scenario
	story  story
	system string // the system prompt
	out    string
	hits   map[string]int
	took   time.Duration
}

func newBaseline(t *testing.T, s scenario) *baseline {
	t.Helper()
	tr := &trial{s: s, p: newPlace(t)}
	tr.ran(t, tr.p.start(t, s.command(tr.p, pace), "").wait(t))
	end := tr.check(t)
	one := end.sessions[end.runs[0].payload(t).SessionID]
	b := &baseline{s: s, story: storyOf(t, one), out: tr.p.plain(tr.ends[0].out), hits: times(tr.ends[0].hits), took: tr.ends[0].took}
	for _, e := range one.entries {
		if e.system != "" {
			b.system = e.system
		}
	}
	if len(b.story.interrupted()) > 0 {
		t.Fatalf("calls were interrupted without a kill: %v", b.story.interrupted())
	}
	if want := b.told(t, b.story); b.s.workflow != "demo" && want != b.story.answer() {
		t.Fatalf("asked again, the model says %q, not %q", want, b.story.answer())
	}
	return b
}

var kept = sync.OnceValue(func() *baselines { return &baselines{by: map[string]*baseline{}} })

type baselines struct{ by map[string]*baseline }

// baselineOf tells the story once per process.
func baselineOf(t *testing.T, s scenario) *baseline {
	t.Helper()
	all := kept()
	if all.by[s.name] == nil {
		all.by[s.name] = newBaseline(t, s)
	}
	return all.by[s.name]
}

// minPoints is how many fault points there are at least. Source: design 5.4.
const minPoints = 15

// Every declared point is passed by one of the scenarios, or by one that carries on. So a new point is killed at as soon
// as it exists, or this test says that no scenario reaches it.
//
// Promise: P-301, P-460, P-461, P-462, P-463, P-466, P-470, P-471, P-495, P-650
// Invariant: INV-11, INV-12, INV-13, INV-14, INV-15, INV-16, INV-17, INV-18, INV-19, INV-21, INV-31, INV-34, INV-35, INV-36
func TestAKillAtEveryPointChangesNoStory(t *testing.T) {
	names := faultpoint.Names()
	if len(names) < minPoints {
		t.Errorf("there are %d fault points, want %d at least", len(names), minPoints)
	}
	reached := map[string]bool{}
	for _, s := range scenarios {
		b := baselineOf(t, s)
		for _, name := range names {
			n := b.hits[name]
			if n == 0 || !*flagAll && reached[name] {
				continue
			}
			reached[name] = true
			for _, at := range moments(name, n) {
				t.Run(fmt.Sprintf("%s/%s:%d", s.name, name, at), func(t *testing.T) { killAt(t, b, name, at) })
			}
		}
	}
	for name, n := range recovering(t) {
		if n == 0 || !*flagAll && reached[name] {
			continue
		}
		reached[name] = true
		for _, at := range moments(name, n) {
			t.Run(fmt.Sprintf("carrying on/%s:%d", name, at), func(t *testing.T) { killAgainAt(t, name, at) })
		}
	}
	commanded(t)
	for name := range repeated(t, names) {
		reached[name] = true
	}
	for _, name := range clientPoints {
		reached[name] = true
	}
	for _, name := range names {
		if !reached[name] {
			t.Errorf("no scenario passes %s", name)
		}
	}
}

// moments are the hits at which to kill: the first, at the edges of a tool also the last, whose call must not run twice; with
// -crash.all a middle one and the last of every point.
func moments(point string, n int) []int {
	list := []int{1}
	if *flagAll {
		list = append(list, (n+1)/2)
	}
	if *flagAll || strings.HasPrefix(point, "harness.tool.") {
		list = append(list, n)
	}
	return slices.Compact(list)
}

// moreTries is for points that are passed as often as the clock wants it: a run may have fewer hits than the baseline.
const moreTries = 4

// killAt runs the scenario with a kill at a hit of a point, carries on, and checks the end.
func killAt(t *testing.T, b *baseline, point string, at int) {
	for range moreTries {
		tr := &trial{s: b.s, b: b, p: newPlace(t)}
		args := b.s.command(tr.p, pace)
		first := tr.p.start(t, args, fmt.Sprintf("%s:%d", point, at)).wait(t)
		tr.ran(t, first)
		if first.killed {
			tr.ran(t, tr.p.start(t, args, "").wait(t))
			tr.check(t)
			return
		}
		tr.check(t) // nobody disturbed it: it must be right, too
		if at = times(first.hits)[point]; at == 0 {
			break
		}
	}
	t.Fatalf("no run was killed at %s", point)
}

// inAnswer kills the agent scenario while its last answer streams.
func inAnswer(t *testing.T) (*trial, []string) {
	t.Helper()
	b := baselineOf(t, scenarios[0])
	tr := &trial{s: b.s, b: b, p: newPlace(t)}
	args := b.s.command(tr.p, pace)
	point := "harness.partial.committed"
	at := max(1, b.hits[point]-b.hits[point]/4)
	for range moreTries {
		e := tr.p.start(t, args, fmt.Sprintf("%s:%d", point, at)).wait(t)
		if e.killed {
			tr.ran(t, e)
			return tr, args
		}
		at = max(1, times(e.hits)[point]-2)
		tr = &trial{s: b.s, b: b, p: newPlace(t)}
		args = b.s.command(tr.p, pace)
	}
	t.Fatal("no run was killed in its answer")
	return nil, nil
}

// recovering returns the points that a command passes which carries on in the middle of an answer.
func recovering(t *testing.T) map[string]int {
	t.Helper()
	tr, args := inAnswer(t)
	e := tr.p.start(t, args, "").wait(t)
	tr.ran(t, e)
	tr.check(t)
	if n := strings.Count(e.err, "carried on"); n == 0 {
		t.Errorf("a person does not see that the answer was carried on: %s", e.err)
	}
	return times(e.hits)
}

// killAgainAt kills the command that carries on, too.
func killAgainAt(t *testing.T, point string, at int) {
	for range moreTries {
		tr, args := inAnswer(t)
		again := tr.p.start(t, args, fmt.Sprintf("%s:%d", point, at)).wait(t)
		tr.ran(t, again)
		if again.killed {
			tr.ran(t, tr.p.start(t, args, "").wait(t))
			tr.check(t)
			return
		}
		tr.check(t)
		if at = times(again.hits)[point]; at == 0 {
			break
		}
	}
	t.Fatalf("no command that carried on was killed at %s", point)
}
