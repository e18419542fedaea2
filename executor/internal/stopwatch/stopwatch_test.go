package stopwatch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/stopwatch"
	"github.com/workflowd/workflowd/workflow"
)

func TestAWatchCountsTheWholeAndTheSilence(t *testing.T) {
	type step struct {
		at time.Duration
		do func(*stopwatch.Watch)
	}
	begin, pause, quiet, stop := (*stopwatch.Watch).Begin, (*stopwatch.Watch).Pause, (*stopwatch.Watch).Quiet, (*stopwatch.Watch).Stop
	for _, test := range []struct {
		name        string
		total, idle time.Duration
		steps       []step
		want        string
	}{
		{"no limit", 0, 0, []step{{0, begin}}, ""},
		{"the whole", 30, 0, []step{{0, begin}}, "30s: ran longer than its total timeout of 30s"},
		{"the whole, stopped before", 30, 0, []step{{29, stop}}, ""},
		{"silence counts from its beginning", 0, 10, []step{{5, begin}}, "15s: delivered nothing within its idle timeout of 10s"},
		{"silence that never begins", 0, 10, nil, ""},
		{"each beginning is a new one", 0, 10, []step{{0, begin}, {9, begin}, {18, begin}}, "28s: delivered nothing within its idle timeout of 10s"},
		{"a pause does not count", 0, 10, []step{{0, begin}, {9, pause}, {50, begin}}, "1m0s: delivered nothing within its idle timeout of 10s"},
		{"nothing counts behind the end of a stream", 60, 10, []step{{0, begin}, {9, quiet}, {20, begin}}, "1m0s: ran longer than its total timeout of 1m0s"},
		{"both", 40, 10, []step{{0, begin}, {35, begin}}, "10s: delivered nothing within its idle timeout of 10s, 40s: ran longer than its total timeout of 40s, 45s: delivered nothing within its idle timeout of 10s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := time.Now()
				ends := make(chan string, 9)
				w := stopwatch.Start(test.total*time.Second, test.idle*time.Second, func(err error) {
					if !stopwatch.Overran(fmt.Errorf("x: %w", err)) || !fault.Is(err, workflow.DeadlineExceeded) {
						t.Errorf("the cause is %v", err)
					}
					ends <- fmt.Sprintf("%v: %v", time.Since(first), err)
				})
				for _, s := range test.steps {
					<-time.After(s.at*time.Second - time.Since(first))
					s.do(w)
				}
				<-time.After(time.Hour)
				w.Stop()
				synctest.Wait()
				close(ends)
				var got []string
				for end := range ends {
					got = append(got, end)
				}
				if strings.Join(got, ", ") != test.want {
					t.Errorf("got %q, want %q", strings.Join(got, ", "), test.want)
				}
			})
		})
	}
}
