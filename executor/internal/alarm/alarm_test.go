package alarm_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/executor/internal/alarm"
)

func TestEachNameRingsOnceAtItsLastTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		type ring struct {
			name string
			at   time.Duration
		}
		rings := make(chan ring, 10)
		a := alarm.Start(time.Now, func(name string) { rings <- ring{name, time.Since(begin)} })
		for name, seconds := range map[string]int{"moved": 1, "removed": 2, "late": 9, "early": 3, "past": -5} {
			a.Set(name, begin.Add(time.Duration(seconds)*time.Second))
		}
		a.Set("moved", begin.Add(5*time.Second))
		a.Set("removed", time.Time{})
		<-time.After(8 * time.Second) // on the clock of synctest
		a.Stop()
		a.Stop()
		close(rings)
		var got []string
		for r := range rings {
			got = append(got, r.name+" "+r.at.String())
		}
		if want := "past 0s, early 3s, moved 5s"; strings.Join(got, ", ") != want {
			t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
		}
	})
}
