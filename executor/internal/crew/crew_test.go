package crew_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/executor/internal/crew"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestACrewRunsEverythingAndGoesHome(t *testing.T) {
	var c crew.Crew
	var done atomic.Int32
	const jobs = 500
	for range jobs {
		c.Run(func() { done.Add(1) })
	}
	c.Run(func() { done.Add(1); runtime.Goexit() })
	c.Dismiss()
	c.Wait()
	if n := done.Load(); n != jobs+1 {
		t.Errorf("%d of %d jobs ran", n, jobs+1)
	}
}

func TestAJobDoesNotWaitForAnother(t *testing.T) {
	var c crew.Crew
	first, second := make(chan struct{}), make(chan struct{})
	c.Run(func() { <-second; close(first) })
	c.Run(func() { close(second) })
	<-first
	c.Dismiss()
	c.Wait()
}
