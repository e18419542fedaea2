package workflowd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/workflowd/workflowd"
)

// wakeup is the input and the checkpoint of a timer, in Unix milliseconds. The time is absolute: a restart sleeps the rest.
type wakeup struct {
	WakeAt int64 `json:"wakeAt"`
}

// A task of the project's own runs behind an answer: started once, however often the command is sent. The Run ends with it.
// Promise: P-204
func ExampleDefineTask() {
	type run = workflowd.TaskRun[wakeup, wakeup, string]
	timer := workflowd.DefineTask("app.timer", 1,
		func(in wakeup) (string, wakeup) { return "wait", in },
		workflowd.TaskPhase("wait", func(ctx context.Context, r *run) error {
			if err := r.SleepMillis(r.State.WakeAt); err != nil {
				return err // the task sleeps; this phase runs again at its time
			}
			fmt.Println("awake")
			return r.Save(ctx, r.Complete("awake"))
		}),
		workflowd.TaskAbort(func(ctx context.Context, r *run) error {
			return r.Save(ctx, r.Cancelled()) // release the project's resources before
		}),
	)
	registry := workflowd.NewRegistry()
	if err := registry.Install(workflowd.Extension{Name: "app", Tasks: []workflowd.TaskDefinition{timer.Definition()}}); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	agent, err := workflowd.NewAgent(ctx, workflowd.AgentOptions{
		LLM: workflowd.DemoModel(), Model: "demo",
		Session: &workflowd.SessionOptions{Registry: registry},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	input, err := json.Marshal(wakeup{WakeAt: time.Now().Add(50 * time.Millisecond).UnixMilli()})
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range agent.Run(ctx, workflowd.Input{Prompt: "hello"}, nil) {
		if err != nil {
			log.Fatal(err)
		}
		if end, is := event.(workflowd.TurnEnd); is {
			fmt.Println(end.Status)
			start := workflowd.TaskCommand{RequestID: "t1", Name: "app.timer", Input: input, Background: true}
			first, err := agent.Control(ctx, start)
			if err != nil {
				log.Fatal(err)
			}
			again, err := agent.Control(ctx, start)
			fmt.Println(first.TaskID == again.TaskID, err)
		}
	}
	fmt.Println("the run is over")
	// Output:
	// answered
	// true <nil>
	// awake
	// the run is over
}
