package agentcore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/env/local"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/prompt"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/agentcore/tool/builtin"
)

// place is where the tools of a turn act, made once for equal settings. Its environment is kept until Close: what a tool
// left there stays. The guard, which holds open directories, and the tools are nil while nobody uses the session.
type place struct {
	env   *local.Environment
	guard *permission.Guard
	tools []harness.Offered
}

// CleanupTimeout bounds how long Close waits for stray processes of the tools.
const CleanupTimeout = 5 * time.Second

func (p *place) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), CleanupTimeout)
	defer cancel()
	return errors.Join(p.env.Cleanup(ctx), p.shut())
}

// shut gives the open directories back.
func (p *place) shut() error {
	if p.guard == nil {
		return nil
	}
	guard := p.guard
	p.guard, p.tools = nil, nil
	return guard.Close()
}

// idle gives back what an idle session need not hold. No step of a turn runs.
func (a *Agent) idle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.places {
		_ = p.shut() // directories that were only read from
	}
}

// resolve makes stored settings live: the harness calls it once per turn, after a restart again.
func (a *Agent) resolve(_ context.Context, raw json.RawMessage) (harness.Setup, error) {
	var s settings
	if err := json.Unmarshal(raw, &s); err != nil {
		return harness.Setup{}, fault.New(fault.Storage, "settings of a turn: %w", err)
	}
	tools, err := a.tools(string(raw), s)
	if err != nil {
		return harness.Setup{}, err
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Spec().Name
	}
	var compact compaction.Settings
	if a.opts.Session != nil {
		compact = a.opts.Session.Compaction
	}
	return harness.Setup{
		Compaction: compact,
		Provider:   a.provider, Model: s.Model, Effort: s.Effort, MaxTokens: s.MaxTokens, Window: s.Window, Tools: tools,
		System: prompt.System(prompt.Sections{Persona: s.SystemPrompt, Workdir: s.Workdir, Plan: s.Mode == permission.Plan, Tools: names}),
	}, nil
}

func (a *Agent) tools(key string, s settings) ([]harness.Offered, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.places[key]
	if p == nil {
		e, err := local.New(local.Options{Dir: s.Workdir, Env: a.opts.environ()})
		if err != nil {
			return nil, fault.New(fault.InputValidation, "%w", err)
		}
		p = &place{env: e}
	}
	if p.guard == nil {
		if err := p.open(s, a.opts); err != nil {
			if a.places[key] == nil {
				err = errors.Join(err, p.close())
			}
			return nil, err
		}
	}
	a.places[key] = p
	return p.tools, nil
}

// open opens the working directory and makes the tools: the built-in ones that policy and mode allow, then the host's own.
func (p *place) open(s settings, o Options) (err error) {
	if p.guard, err = permission.New(permission.Reach{Policy: s.Policy, Workdir: s.Workdir, AllowedDirectories: s.Allowed}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.shut())
		}
	}()
	tools, err := builtin.Set(builtin.Options{Env: p.env, Guard: p.guard, Policy: s.Policy, Mode: s.Mode, Only: o.Tools})
	if err != nil {
		return err
	}
	for _, t := range tools {
		p.tools = append(p.tools, harness.Offered{Tool: t})
	}
	for _, t := range o.ExtraTools {
		if err := unique(p.tools, t); err != nil {
			return err
		}
		p.tools = append(p.tools, harness.Offered{Tool: t, Own: true})
	}
	return nil
}

func unique(tools []harness.Offered, t tool.Tool) error {
	for _, other := range tools {
		if other.Spec().Name == t.Spec().Name {
			return fault.New(fault.InputValidation, "tool %q: there are two of that name", t.Spec().Name)
		}
	}
	return nil
}
