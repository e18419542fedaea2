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

// place is where the tools of a turn act, opened once for equal settings and kept until Close.
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
	return errors.Join(p.env.Cleanup(ctx), p.guard.Close())
}

// resolve makes stored settings live: the harness calls it once per turn, after a restart again.
func (a *Agent) resolve(_ context.Context, raw json.RawMessage) (harness.Setup, error) {
	var s settings
	if err := json.Unmarshal(raw, &s); err != nil {
		return harness.Setup{}, fault.New(fault.Storage, "settings of a turn: %w", err)
	}
	p, err := a.place(string(raw), s)
	if err != nil {
		return harness.Setup{}, err
	}
	names := make([]string, len(p.tools))
	for i, t := range p.tools {
		names[i] = t.Spec().Name
	}
	var compact compaction.Settings
	if a.opts.Session != nil {
		compact = a.opts.Session.Compaction
	}
	return harness.Setup{
		Compaction: compact,
		Provider:   a.provider, Model: s.Model, Effort: s.Effort, MaxTokens: s.MaxTokens, Window: s.Window, Tools: p.tools,
		System: prompt.System(prompt.Sections{Persona: s.SystemPrompt, Workdir: s.Workdir, Plan: s.Mode == permission.Plan, Tools: names}),
	}, nil
}

func (a *Agent) place(key string, s settings) (*place, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.places[key]; p != nil {
		return p, nil
	}
	p, err := openPlace(s, a.opts)
	if err == nil {
		a.places[key] = p
	}
	return p, err
}

// openPlace opens the working directory and makes the tools: the built-in ones that policy and mode allow, then the
// host's own.
func openPlace(s settings, o Options) (*place, error) {
	guard, err := permission.New(permission.Reach{Policy: s.Policy, Workdir: s.Workdir, AllowedDirectories: s.Allowed})
	if err != nil {
		return nil, err
	}
	e, err := local.New(local.Options{Dir: s.Workdir, Env: o.environ()})
	if err != nil {
		return nil, errors.Join(fault.New(fault.InputValidation, "%w", err), guard.Close())
	}
	p := &place{env: e, guard: guard}
	tools, err := builtin.Set(builtin.Options{Env: e, Guard: guard, Policy: s.Policy, Mode: s.Mode, Only: o.Tools})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	for _, t := range tools {
		p.tools = append(p.tools, harness.Offered{Tool: t})
	}
	for _, t := range o.ExtraTools {
		if err := unique(p.tools, t); err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.tools = append(p.tools, harness.Offered{Tool: t, Own: true})
	}
	return p, nil
}

func unique(tools []harness.Offered, t tool.Tool) error {
	for _, other := range tools {
		if other.Spec().Name == t.Spec().Name {
			return fault.New(fault.InputValidation, "tool %q: there are two of that name", t.Spec().Name)
		}
	}
	return nil
}
