package task_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// process is one process that works on a store, in an example.
type process struct {
	sess  *session.Session
	sched *task.Scheduler
	over  chan session.Task // every task that has ended
}

func start(storage session.Storage, defs ...task.Definition) *process {
	sess, err := session.Open(context.Background(), storage)
	if err != nil {
		panic(err)
	}
	p := &process{sess: sess, over: make(chan session.Task, 100)}
	sess.Watch(func(c session.Commit) {
		for _, t := range c.Batch.Tasks {
			if t.Status == session.TaskTerminal {
				p.over <- t
			}
		}
	})
	p.sched = task.NewScheduler(sess, func(err error) { fmt.Println("scheduler:", err) }, defs...)
	if err := p.sched.Resume(context.Background()); err != nil {
		panic(err)
	}
	return p
}

func (p *process) create(t session.Task, err error) {
	if err == nil {
		t.Conversation = session.Root
		_, err = p.sess.Commit(context.Background(), func(tx *session.Tx) error { tx.CreateTask(t); return tx.EnsureRoot() })
	}
	if err != nil {
		panic(err)
	}
}

func (p *process) end() {
	p.sched.Close()
	if err := p.sess.Close(); err != nil {
		panic(err)
	}
}

// wakeup is the input and the checkpoint of the timer. The time is an absolute one, so a restart sleeps only the rest.
type wakeup struct {
	WakeAt int64 `json:"wakeAt"` // Unix milliseconds
}

// A timer: one phase that sleeps and then ends.
// Promise: P-205
func ExampleDefine() {
	type run = task.Run[wakeup, wakeup, string]
	timer := task.Define("app.timer", 1,
		func(in wakeup) (string, wakeup) { return "wait", in },
		task.On("wait", func(ctx context.Context, r *run) error {
			if err := r.SleepMillis(r.State.WakeAt); err != nil {
				return err // the task sleeps; this phase runs again at its time
			}
			return r.Save(ctx, r.Complete("awake"))
		}),
		task.OnAbort(func(ctx context.Context, r *run) error {
			// Release the project's resources here.
			return r.Save(ctx, r.Cancelled())
		}),
	)

	p := start(session.NewMemory(), timer.Definition())
	p.create(timer.New(wakeup{WakeAt: time.Now().Add(20 * time.Millisecond).UnixMilli()}))
	fmt.Println(timer.Result(<-p.over))
	p.end()
	// Output: awake <nil>
}

// payment is one payment of a checkout. NotBefore holds it back, in Unix milliseconds.
type payment struct {
	To        string `json:"to"`
	NotBefore int64  `json:"notBefore,omitempty"`
}

// nothing is a checkpoint or an input without content.
type nothing struct{}

// A checkout of four payments that fails fast, and a process that ends while the bank works. A payment must never be made
// twice: its intent is committed before the bank is asked, and whoever finds an intent of an earlier process does not know
// whether the bank was asked, so it says so instead of asking again.
func ExampleFailFast() {
	asked := map[string]int{} // the bank's own book, outside of the store
	var mu sync.Mutex
	atBank := make(chan string, 100)
	bank := func(to string) {
		mu.Lock()
		defer mu.Unlock()
		asked[to]++
		atBank <- to
	}
	type pay = task.Run[payment, nothing, string]
	payments := task.Define("shop.payment", 1,
		func(payment) (string, nothing) { return "intend", nothing{} },
		task.On("intend", func(ctx context.Context, r *pay) error {
			if err := r.SleepMillis(r.Input.NotBefore); err != nil {
				return err
			}
			return r.Save(ctx, r.Continue("pay", nothing{})) // the intent
		}),
		task.On("pay", func(ctx context.Context, r *pay) error {
			if r.Recovered() {
				return r.Save(ctx, r.Fail("the bank may have been asked before the restart"))
			}
			bank(r.Input.To)           // the effect
			if r.Input.To == "carol" { // her bank takes its time: the process ends meanwhile
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return r.Save(ctx, r.Complete("receipt for "+r.Input.To))
		}),
	)
	type shop = task.Run[[]payment, []session.TaskID, nothing]
	checkout := task.Define("shop.checkout", 1,
		func([]payment) (string, []session.TaskID) { return "start", nil },
		task.On("start", func(ctx context.Context, r *shop) error {
			_, err := r.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				var all []session.TaskID
				for _, p := range r.Input {
					t, err := payments.New(p)
					if err != nil {
						return nil, err
					}
					t.Conversation, t.Owner = session.Root, r.Task().ID
					all = append(all, tx.CreateTask(t))
				}
				return r.Wait(all, task.FailFast, "sum", all), nil
			})
			return err
		}),
		task.On("sum", func(ctx context.Context, r *shop) error {
			_, err := r.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				for i, id := range r.State {
					t, err := tx.Task(id)
					if err != nil {
						return nil, err
					}
					fmt.Printf("%s: %q %s\n", r.Input[i].To, t.Outcome.Error+t.Outcome.Reason, t.Outcome.Status)
				}
				return r.Fail("not everything was paid"), nil
			})
			return err
		}),
	)

	store := session.NewMemory()
	first := start(store, checkout.Definition(), payments.Definition())
	tomorrow := time.Now().Add(24 * time.Hour).UnixMilli()
	first.create(checkout.New([]payment{{To: "alice"}, {To: "bob"}, {To: "carol"}, {To: "dave", NotBefore: tomorrow}}))
	for range 3 {
		<-atBank // alice, bob and carol
	}
	<-first.over // alice
	<-first.over // bob
	first.end()  // carol's payment is at the bank

	second := start(store.Reopen(), checkout.Definition(), payments.Definition())
	for end := range second.over {
		if end.Kind == "shop.checkout" {
			fmt.Println("checkout", end.Outcome.Status)
			break
		}
	}
	second.end()
	fmt.Println("the bank was asked", asked)
	// Output:
	// alice: "" completed
	// bob: "" completed
	// carol: "the bank may have been asked before the restart" failed
	// dave: "a task beside it did not complete" aborted
	// checkout failed
	// the bank was asked map[alice:1 bob:1 carol:1]
}
