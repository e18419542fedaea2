package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// Chain is the hooks of all extensions of one publication. Its methods say what the hooks together do; they keep nothing.
// The zero value does nothing.
type Chain struct {
	links  []link
	report func(HookError)
}

type link struct {
	extension string
	hooks     Hooks
}

// HookError is a hook that failed.
type HookError struct {
	Extension string
	Hook      string // as the field of Hooks
	Err       error
}

// Error names the hook and says what went wrong.
func (e HookError) Error() string {
	return fmt.Sprintf("hook %s of extension %q: %v", e.Hook, e.Extension, e.Err)
}

// Unwrap returns what went wrong.
func (e HookError) Unwrap() error { return e.Err }

// NewChain returns the chain of hooks without a registry, for hosts and tests. The extensions are named by their place.
func NewChain(report func(HookError), hooks ...Hooks) Chain {
	c := Chain{report: report}
	for i, h := range hooks {
		c.links = append(c.links, link{fmt.Sprint(i), h})
	}
	return c
}

// BeforeToolSet reports whether there is a hook to ask before a call.
func (c Chain) BeforeToolSet() bool { return c.some(func(h Hooks) bool { return h.BeforeTool != nil }) }

// AfterToolsSet reports whether there is a hook to tell of a finished round.
func (c Chain) AfterToolsSet() bool { return c.some(func(h Hooks) bool { return h.AfterTools != nil }) }

// BeforeRequestSet reports whether there is a hook that may replace a request.
func (c Chain) BeforeRequestSet() bool {
	return c.some(func(h Hooks) bool { return h.BeforeRequest != nil })
}

// AfterResponseSet reports whether there is a hook that may replace a response.
func (c Chain) AfterResponseSet() bool {
	return c.some(func(h Hooks) bool { return h.AfterResponse != nil })
}

func (c Chain) some(is func(Hooks) bool) bool {
	return slices.ContainsFunc(c.links, func(l link) bool { return is(l.hooks) })
}

// BeforeTool hands the arguments from hook to hook. The first Block wins and an error blocks, both are returned as Block;
// else the decision is Proceed with the arguments of the last hook. The only error is the end of ctx.
func (c Chain) BeforeTool(ctx context.Context, call ToolCall) (ToolDecision, error) {
	for _, l := range c.links {
		if l.hooks.BeforeTool == nil {
			continue
		}
		var d ToolDecision
		err := guard(func() (err error) { d, err = l.hooks.BeforeTool(ctx, call); return err })
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if p, is := d.(Proceed); err == nil && is && p.Args != nil {
			if !json.Valid(p.Args) {
				err = fmt.Errorf("its arguments are not JSON")
			}
			call.Args = p.Args
		}
		if err != nil {
			return Block{c.tell(l, "BeforeTool", err).Error()}, nil
		}
		if b, is := d.(Block); is {
			return b, nil
		}
	}
	return Proceed{call.Args}, nil
}

// AfterTool hands the result from hook to hook.
func (c Chain) AfterTool(ctx context.Context, call ToolCall, r tool.Result) (tool.Result, error) {
	return hand(ctx, c, "AfterTool", r, func(h Hooks, r tool.Result) (tool.Result, error) {
		if h.AfterTool == nil {
			return r, nil
		}
		return h.AfterTool(ctx, call, r)
	})
}

// BeforeRequest hands the request from hook to hook.
func (c Chain) BeforeRequest(ctx context.Context, r llm.Request) (llm.Request, error) {
	return hand(ctx, c, "BeforeRequest", r, func(h Hooks, r llm.Request) (llm.Request, error) {
		if h.BeforeRequest == nil {
			return r, nil
		}
		r.Messages, r.Tools = slices.Clone(r.Messages), slices.Clone(r.Tools) // a hook that fails leaves no trace
		return h.BeforeRequest(ctx, r)
	})
}

// AfterResponse hands the response from hook to hook.
func (c Chain) AfterResponse(ctx context.Context, m llm.Message) (llm.Message, error) {
	return hand(ctx, c, "AfterResponse", m, func(h Hooks, m llm.Message) (llm.Message, error) {
		if h.AfterResponse == nil {
			return m, nil
		}
		m.Blocks = slices.Clone(m.Blocks)
		return h.AfterResponse(ctx, m)
	})
}

// OnYield asks the hooks in order; the first GoOn wins and the others are not asked. Else the decision is Accept.
func (c Chain) OnYield(ctx context.Context, answer llm.Message) (YieldDecision, error) {
	var won YieldDecision = Accept{}
	_, err := hand(ctx, c, "OnYield", answer, func(h Hooks, answer llm.Message) (llm.Message, error) {
		if _, decided := won.(GoOn); decided || h.OnYield == nil {
			return answer, nil
		}
		d, err := h.OnYield(ctx, answer)
		if g, is := d.(GoOn); is && err == nil {
			won = g
		}
		return answer, err
	})
	if err != nil {
		return nil, err
	}
	return won, nil
}

// AfterTools tells every hook, also behind one that failed.
func (c Chain) AfterTools(ctx context.Context, round []ToolOutcome) error {
	_, err := hand(ctx, c, "AfterTools", round, func(h Hooks, round []ToolOutcome) ([]ToolOutcome, error) {
		if h.AfterTools == nil {
			return round, nil
		}
		return round, h.AfterTools(ctx, slices.Clone(round))
	})
	return err
}

// ConversationCreated lets every hook draft. The first error is returned, as a HookError, and must fail the commit.
func (c Chain) ConversationCreated(tx *session.Tx, id session.ConversationID) error {
	for _, l := range c.links {
		if l.hooks.ConversationCreated == nil {
			continue
		}
		if err := guard(func() error { return l.hooks.ConversationCreated(tx, id) }); err != nil {
			return HookError{l.extension, "ConversationCreated", err}
		}
	}
	return nil
}

// hand passes a value from hook to hook. A hook that fails is reported and leaves the value as it was. The only error is
// the end of ctx.
func hand[T any](ctx context.Context, c Chain, hook string, v T, call func(Hooks, T) (T, error)) (T, error) {
	for _, l := range c.links {
		var next T
		err := guard(func() (err error) { next, err = call(l.hooks, v); return err })
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		if err != nil {
			c.tell(l, hook, err)
			continue
		}
		v = next
	}
	return v, nil
}

func (c Chain) tell(l link, hook string, err error) HookError {
	e := HookError{l.extension, hook, err}
	if c.report != nil {
		c.report(e)
	}
	return e
}

// guard turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}
