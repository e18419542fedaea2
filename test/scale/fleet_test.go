//go:build linux

package scale

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

// sessions are kernels on their stores.
type sessions struct {
	dir    string
	leased int
	all    []*session.Session
}

func newSessions(dir string, n, leased int) *sessions {
	return &sessions{dir: dir, leased: leased, all: make([]*session.Session, n)}
}

func (f *sessions) held() int { return f.leased }

func (f *sessions) warm(ctx context.Context, name string) error {
	s, err := f.new(ctx, name, false)
	if err != nil {
		return err
	}
	return errors.Join(f.say(ctx, s), s.Close(), sqlite.Drain())
}

func (f *sessions) open(ctx context.Context, i int) (err error) {
	if f.all[i], err = f.new(ctx, fmt.Sprint(i), i < f.leased); err != nil {
		return err
	}
	return f.say(ctx, f.all[i])
}

func (f *sessions) new(ctx context.Context, name string, leased bool) (*session.Session, error) {
	path := sessionstore.DatabasePath(f.dir, "default", name, "main")
	store, err := sessionstore.Open(ctx, path, sessionstore.Options{Behind: true, Idle: sessionstore.IdleHandle, Yield: !leased})
	if err != nil {
		return nil, err
	}
	return session.Open(ctx, store)
}

func (f *sessions) say(ctx context.Context, s *session.Session) error {
	_, err := s.Commit(ctx, func(tx *session.Tx) error {
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note", Model: []byte(`{"text":"hello"}`)})
		return nil
	})
	return err
}

func (f *sessions) wake(ctx context.Context, i int) error {
	if err := f.say(ctx, f.all[i]); err != nil {
		return err
	}
	return f.all[i].View(ctx, func(tx *session.Tx) error {
		list, err := tx.Entries(session.EntryQuery{Conversation: session.Root, Limit: 10})
		if err == nil && len(list) == 0 {
			err = errors.New("the tail is empty")
		}
		return err
	})
}

func (f *sessions) close() error {
	var errs []error
	for _, s := range f.all {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// agents are whole agents that have answered once.
type agents struct {
	dir string
	all []*agentcore.Agent
}

func newAgents(dir string, n int) *agents { return &agents{dir, make([]*agentcore.Agent, n)} }

func (f *agents) held() int { return len(f.all) }

func (f *agents) warm(ctx context.Context, name string) error {
	a, err := f.new(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(f.turn(ctx, a), a.Close(), agentcore.Drain())
}

func (f *agents) new(ctx context.Context, name string) (*agentcore.Agent, error) {
	return agentcore.New(ctx, agentcore.Options{LLM: quick{}, Model: "m", Workdir: f.dir, DatabasePath: filepath.Join(f.dir, name, "main.db")})
}

func (f *agents) open(ctx context.Context, i int) (err error) {
	if f.all[i], err = f.new(ctx, fmt.Sprint(i)); err != nil {
		return err
	}
	return f.wake(ctx, i)
}

func (f *agents) wake(ctx context.Context, i int) error { return f.turn(ctx, f.all[i]) }

func (f *agents) turn(ctx context.Context, a *agentcore.Agent) error {
	for _, err := range a.Run(ctx, agentcore.Input{Prompt: "Hello"}, nil) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *agents) close() error {
	var errs []error
	for _, a := range f.all {
		if a != nil {
			errs = append(errs, a.Close())
		}
	}
	return errors.Join(append(errs, agentcore.Drain())...)
}

// quick is a model that answers at once and remembers nothing.
type quick struct{}

func (quick) Origin(model string) llm.Origin { return llm.Origin{Provider: "quick", Model: model} }

func (q quick) Stream(_ context.Context, r llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		m := llm.TextMessage(llm.RoleAssistant, "Done.")
		m.Stop, m.Origin, m.Usage = llm.StopEnd, &llm.Origin{Provider: "quick", Model: r.Model}, &llm.Usage{Input: 1, Output: 1, Total: 2}
		_ = yield(llm.BlockStart{Type: llm.Text}, nil) && yield(llm.Delta{Text: "Done."}, nil) &&
			yield(llm.BlockStop{Block: m.Blocks[0]}, nil) && yield(llm.Done{Message: m}, nil)
	}
}
