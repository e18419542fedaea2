//go:build unix

package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// slowly is the pace at which an answer streams for so long that a random kill often hits it.
const slowly = "2ms"

// mostKills is how often one story is interrupted at most.
const mostKills = 3

// A command that is killed at any moment, up to three times, carries on when it is run again, and tells the same story.
// A client that reads its events and reconnects by the last number sees all of them, once.
//
// Promise: P-301, P-466, P-486, P-495, P-650
// Invariant: INV-02, INV-11, INV-12, INV-13, INV-14, INV-15, INV-16, INV-17, INV-31, INV-32, INV-33
func TestKillsAtRandomMomentsChangeNoStory(t *testing.T) {
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash.seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	kills := 0
	spans := map[string]time.Duration{} // how long an undisturbed story takes at this pace, as far as known
	for n := 0; kills < *flagRandom; n++ {
		if n > 10*(*flagRandom) {
			t.Fatalf("%d stories, and only %d kills came before their end", n, kills)
		}
		s := scenarios[n%len(scenarios)]
		events := n/len(scenarios)%2 == 1
		want := 1 + random.IntN(mostKills)
		name := fmt.Sprintf("%03d %s", n, s.name)
		if events {
			name += " as events"
		}
		ok := t.Run(name, func(t *testing.T) {
			done := randomKills(t, s, events, want, random, spans)
			kills += done
			t.Logf("%d kills, %d of %d in all", done, kills, *flagRandom)
		})
		if !ok {
			t.Fatalf("the story that failed comes again with -crash.seed %d -crash.random %d, if the clock agrees", seed, *flagRandom)
		}
	}
}

// randomKills tells a story with up to want kills and returns how many hit it.
func randomKills(t *testing.T, s scenario, events bool, want int, random *rand.Rand, spans map[string]time.Duration) int {
	b := baselineOf(t, s)
	if spans[s.name] == 0 {
		spans[s.name] = b.took
	}
	tr := &trial{s: s, b: b, p: newPlace(t)}
	args := s.command(tr.p, slowly)
	if events {
		args = append(args, "--output", "jsonl")
	}
	for len(tr.lefts) < want {
		c := tr.p.start(t, args, "")
		timer := time.AfterFunc(time.Duration(random.Int64N(int64(spans[s.name]))), func() {
			_ = c.cmd.Process.Kill() // it may have ended, which is no kill then
		})
		e := c.wait(t)
		timer.Stop()
		tr.ran(t, e)
		if !e.killed {
			if len(tr.lefts) == 0 {
				spans[s.name] = e.took
			}
			tr.check(t)
			return len(tr.lefts)
		}
	}
	last := tr.p.start(t, args, "").wait(t)
	tr.ran(t, last)
	tr.check(t)
	tr.repeat(t, args)
	return len(tr.lefts)
}

// repeat runs the command of a finished story once more: it says the same and does nothing.
func (tr *trial) repeat(t *testing.T, args []string) {
	t.Helper()
	if tr.s.workflow == "demo" {
		return // a demo that has finished starts anew
	}
	before := tr.ends[len(tr.ends)-1]
	again := tr.p.start(t, args, "").wait(t)
	if again.code != 0 || again.out != before.out {
		t.Errorf("the same command says another thing: %s\nbefore: %s", again, before)
	}
	for _, h := range again.hits {
		if strings.HasPrefix(h.point, "harness.") || strings.HasPrefix(h.point, "executor.commit") {
			t.Errorf("the same command did something: it passed %s", h.point)
		}
	}
}
