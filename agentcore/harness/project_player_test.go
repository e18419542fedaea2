package harness_test

import (
	"context"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// What the project of a story has registered: app.hold ends when a hold of its name is released, and cleans up when it is
// cancelled; app.child makes a conversation of its own, holds work in it and ends.

type holdInput struct {
	Name string `json:"name"`
}

type none struct{}

func (p *player) registry() *registry.Registry {
	type hold = task.Run[holdInput, none, string]
	holds := task.Define("app.hold", 1,
		func(holdInput) (string, none) { return "wait", none{} },
		task.On("wait", func(ctx context.Context, r *hold) error {
			select {
			case <-p.began("app.hold", fmt.Sprint(r.Task().ID), r.Input.Name):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return r.Save(ctx, r.Complete("held"))
		}),
		task.OnAbort(func(ctx context.Context, r *hold) error {
			p.clean(r.Task().ID)
			return r.Save(ctx, r.Cancelled())
		}),
		task.Restarts[holdInput, none, string](0))
	type child = task.Run[holdInput, none, string]
	children := task.Define("app.child", 1,
		func(holdInput) (string, none) { return "make", none{} },
		task.On("make", func(ctx context.Context, r *child) error {
			_, err := r.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				work, err := holds.New(r.Input)
				if err != nil {
					return nil, err
				}
				work.Conversation = tx.CreateConversation(nil, r.Task().ID)
				tx.CreateTask(work)
				return r.Continue("end", none{}), nil
			})
			return err
		}),
		task.On("end", func(ctx context.Context, r *child) error { return r.Save(ctx, r.Complete("made")) }),
		task.Restarts[holdInput, none, string](0))
	reg := registry.New()
	if err := reg.Install(registry.Extension{Name: "app", Tasks: []task.Definition{holds.Definition(), children.Definition()}}); err != nil {
		p.t.Fatal(err)
	}
	return reg
}

// clean notes that the cleanup of a task has run.
func (p *player) clean(id session.TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[fmt.Sprintf("clean %d", id)] = true
}

// projectTask tells the beginning and the end of a task of the project.
func (p *player) projectTask(t session.Task) {
	if _, known := p.started[t.ID]; !known {
		p.started[t.ID] = t.Kind
		line := p.where(t.Conversation) + "task " + t.Kind
		if t.Background {
			line += " in the background"
		}
		p.log = append(p.log, line)
	}
	p.live[t.ID] = t
	if t.Status != session.TaskTerminal {
		return
	}
	delete(p.live, t.ID)
	line := fmt.Sprintf("%stask %s %s", p.where(t.Conversation), t.Kind, t.Outcome.Status)
	if p.seen[fmt.Sprintf("clean %d", t.ID)] {
		line += " and cleaned up"
	}
	p.log = append(p.log, line)
}

// where names a conversation in front of a line: nothing for the main one, else its place among the others.
func (p *player) where(c session.ConversationID) string {
	for i, branch := range p.branches {
		if branch == c {
			return fmt.Sprintf("%c: ", 'A'+i)
		}
	}
	return ""
}

// compactionTask tells the beginning and a bad end of a compaction; a good one is an entry.
func (p *player) compactionTask(t session.Task, known bool) {
	if !known {
		p.log = append(p.log, p.where(t.Conversation)+"compaction")
	}
	if t.Phase == "retry" && t.Status == session.TaskPending {
		p.log = append(p.log, "summary asked for again")
	}
	if t.Status == session.TaskTerminal && t.Outcome.Status != session.Completed {
		p.log = append(p.log, fmt.Sprintf("compaction %s: %s%s", t.Outcome.Status, t.Outcome.Error, t.Outcome.Reason))
	}
}
