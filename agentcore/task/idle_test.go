package task

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
)

// idler is a storage that is idle when the test says so.
type idler struct {
	*session.Memory
	idle func()
}

func (i *idler) OnIdle(f func()) { i.idle = f }

func TestAnIdleSchedulerKeepsWhatItKnows(t *testing.T) {
	storage := &idler{Memory: session.NewMemory()}
	sess, err := session.Open(t.Context(), storage)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	s := NewScheduler(sess, func(err error) { t.Error(err) })
	defer s.Close()
	s.mirror.live[3] = session.Task{ID: 3, Status: session.TaskWaiting, On: []session.TaskID{4}}
	s.mirror.waiters.add(4, 3)
	s.mirror.awaits[3] = 1
	s.parked[3] = struct{}{}
	s.standing[3] = Parked{}
	before, live := []any{s.mirror.live, s.mirror.waiters, s.mirror.awaits, s.parked, s.standing}, s.mirror.live
	storage.idle()
	after := []any{s.mirror.live, s.mirror.waiters, s.mirror.awaits, s.parked, s.standing}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("idle, it knows something else (-before +after):\n%s", diff)
	}
	delete(live, 3)
	if len(s.mirror.live) != 1 {
		t.Error("the maps are the old ones, which never shrink")
	}
	live, s.looping = s.mirror.live, true
	storage.idle()
	if delete(live, 3); len(s.mirror.live) != 0 {
		t.Error("the maps change under the loop")
	}
	s.looping = false
}
