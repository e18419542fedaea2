package task

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/session"
)

// plain computes what look says from the records alone.
func plain(live map[session.TaskID]session.Task, t session.Task) view {
	var v view
	over := 0
	for _, on := range t.On {
		if _, ok := live[on]; ok {
			v.awaiting = true
		} else {
			over++
		}
	}
	if over > 0 && Policy(t.Policy).first() {
		v.awaiting = false
	}
	for _, o := range live {
		if o.Owner == t.ID && !o.Background {
			v.ownsLive = true
		}
	}
	if owner, ok := live[t.Owner]; ok {
		v.ownerDown = goingDown(owner)
	}
	return v
}

// Whatever is committed, in whatever order within a commit: the mirror says what the records say, and a task whose view
// became another one is due.
func TestTheMirrorSaysWhatTheRecordsSay(t *testing.T) {
	const most = 8
	rapid.Check(t, func(t *rapid.T) {
		m, live := newMirror(), map[session.TaskID]session.Task{}
		id := rapid.Custom(func(t *rapid.T) session.TaskID { return session.TaskID(rapid.IntRange(1, most).Draw(t, "id")) })
		for range rapid.IntRange(1, 20).Draw(t, "commits") {
			before := map[session.TaskID]view{}
			for _, task := range live {
				before[task.ID] = plain(live, task)
			}
			var batch []session.Task
			for _, id := range rapid.SliceOfNDistinct(id, 1, 3, rapid.ID).Draw(t, "ids") {
				task := session.Task{ID: id,
					Owner:      session.TaskID(rapid.IntRange(0, most).Draw(t, "owner")),
					Background: rapid.Bool().Draw(t, "background"),
					Abort:      rapid.Bool().Draw(t, "abort"),
					Status:     rapid.SampledFrom([]session.TaskStatus{session.TaskPending, session.TaskWaiting, session.TaskTerminal}).Draw(t, "status"),
				}
				for _, on := range rapid.SliceOfN(rapid.IntRange(1, most), 0, 3).Draw(t, "on") {
					task.On = append(task.On, session.TaskID(on))
				}
				batch = append(batch, task)
				if delete(live, id); task.Status != session.TaskTerminal {
					live[id] = task
				}
			}
			for id, task := range live { // what is over stays over: a number that lives again is another task here
				if !Policy(task.Policy).first() {
					task.On = slices.DeleteFunc(slices.Clone(task.On), func(on session.TaskID) bool { _, ok := live[on]; return !ok })
				} else if slices.ContainsFunc(task.On, func(on session.TaskID) bool { _, ok := live[on]; return !ok }) {
					task.On = nil // its wait is over for good
				}
				live[id] = task
			}
			m.put(batch)
			due := m.take()
			for id, task := range live {
				got, want := m.look(m.live[id]), plain(live, task)
				got.decided = false // follows from outcomes, which these records lack
				if len(task.On) == 0 && Policy(task.Policy).first() {
					got.awaiting = false // a number that lives again
				}
				if got != want {
					t.Fatalf("task %d: the mirror says %+v, the records %+v", id, got, want)
				}
				if old, ok := before[id]; ok && loosened(old, want) && !slices.Contains(due, id) {
					t.Fatalf("task %d went from %+v to %+v and is not due", id, old, want)
				}
			}
			if len(m.live) != len(live) {
				t.Fatalf("%d tasks in the mirror, %d live", len(m.live), len(live))
			}
		}
	})
}

// loosened reports a change that lets a resting task do something.
func loosened(old, now view) bool {
	return old.awaiting && !now.awaiting || old.ownsLive && !now.ownsLive || !old.ownerDown && now.ownerDown
}

func TestAnEmptyMirrorHoldsNothing(t *testing.T) {
	m := newMirror()
	m.put([]session.Task{
		{ID: 2, Status: session.TaskWaiting, Policy: "failFast", On: []session.TaskID{3, 3, 4, 9}},
		{ID: 3, Owner: 2, Status: session.TaskPending},
		{ID: 4, Owner: 2, Background: true, Status: session.TaskPending},
	})
	for id := session.TaskID(2); id <= 4; id++ {
		m.put([]session.Task{{ID: id, Status: session.TaskTerminal}})
	}
	m.take()
	if n := len(m.live) + len(m.owned) + len(m.working) + len(m.waiters) + len(m.awaits) + len(m.suspect) + len(m.culled) + len(m.due); n != 0 {
		t.Errorf("%d things are left: %+v", n, m)
	}
}

// A round costs what changed, not what lives.
func TestOneChangeAmongAThousandTasksConcernsFew(t *testing.T) {
	const many = 1000
	m := newMirror()
	tasks := []session.Task{{ID: 1, Status: session.TaskWaiting}}
	for id := session.TaskID(2); id <= many; id++ {
		tasks = append(tasks, session.Task{ID: id, Owner: 1, Status: session.TaskPending})
		tasks[0].On = append(tasks[0].On, id)
	}
	m.put(tasks)
	if got := len(m.take()); got != many {
		t.Errorf("%d tasks are due at open, want all %d", got, many)
	}
	for id := session.TaskID(2); id < many; id++ {
		m.put([]session.Task{{ID: id, Owner: 1, Status: session.TaskTerminal}})
		if due := m.take(); len(due) != 0 {
			t.Fatalf("the end of task %d concerns %v, want nobody", id, due)
		}
	}
	m.put([]session.Task{{ID: many, Owner: 1, Status: session.TaskTerminal}})
	if due := m.take(); !slices.Equal(due, []session.TaskID{1}) {
		t.Errorf("the end of the last one concerns %v, want its owner", due)
	}
}
