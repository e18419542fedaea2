package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/prompt"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// What a project adds. A step of a turn takes the publication in force when it begins, and keeps it.

// publication is what is installed now.
func (h *Harness) publication() *registry.Publication {
	if h.opts.Registry == nil {
		return &registry.Publication{}
	}
	return h.opts.Registry.Current()
}

// chain is the hooks of a publication.
func (h *Harness) chain(p *registry.Publication) registry.Chain { return p.Hooks(h.opts.HookFailed) }

// extended is a setup with what a publication adds to it: tools behind those of the setup, which keep their names, and
// sections behind its prompt. A tool of a project passes the host's approval hook like the host's own.
func extended(s Setup, p *registry.Publication) Setup {
	s.Tools = slices.Clip(s.Tools)
	for _, t := range p.Tools() {
		if s.tool(t.Spec().Name) == nil {
			s.Tools = append(s.Tools, Offered{Tool: t, Own: true})
		}
	}
	for _, section := range p.Sections() {
		s.System = prompt.Add(s.System, section.Key, section.Text)
	}
	return s
}

// tool returns the tool of a name, or nil.
func (s Setup) tool(name string) *Offered {
	for i := range s.Tools {
		if s.Tools[i].Spec().Name == name {
			return &s.Tools[i]
		}
	}
	return nil
}

// offering leaves of a setup the tools that a request shows.
func (s Setup) offering(req llm.Request) Setup {
	s.Tools = slices.DeleteFunc(slices.Clone(s.Tools), func(t Offered) bool {
		return !slices.ContainsFunc(req.Tools, func(spec llm.ToolSpec) bool { return spec.Name == t.Spec().Name })
	})
	return s
}

// decideCall lets the project's hooks look at a call. args are what runs then; a code says that nothing does, and why.
func decideCall(ctx context.Context, chain registry.Chain, t *Offered, in toolInput, args json.RawMessage) (final json.RawMessage, code, text string, err error) {
	decision, err := chain.BeforeTool(ctx, registry.ToolCall{ID: toolCallID(in.Entry, in.Index), Name: in.Name, Args: args})
	if err != nil {
		return nil, "", "", err
	}
	switch d := decision.(type) {
	case registry.Block:
		return nil, codeDenied, clip(d.Reason), nil
	case registry.Proceed:
		if bytes.Equal(d.Args, args) {
			return args, "", "", nil
		}
		if final, err = t.Prepare(d.Args); err != nil {
			return nil, codeArguments, clip("A hook changed the arguments, and now they do not fit: " + err.Error()), nil
		}
	}
	return final, "", "", nil
}

// outcomesOf reads what the calls of a round gave, in call order, and whether all that ran asked to end the turn.
func (h *Harness) outcomesOf(ctx context.Context, g genState, gen session.TaskID) (round []registry.ToolOutcome, terminate bool, err error) {
	err = h.sess.View(ctx, func(tx *session.Tx) error {
		th, err := h.told(tx, g.Conversation, g.Entry)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(th.items, func(it item) bool { return it.id == g.Entry })
		if at < 0 {
			return fmt.Errorf("entry %d of a round: %w", g.Entry, session.ErrNotFound)
		}
		results := map[string]llm.Message{}
		for _, it := range th.items[at:] {
			if it.kind == kindToolResult {
				results[it.message.CallID] = it.message
			}
		}
		for i, b := range th.items[at].message.Blocks {
			if b.Type != llm.ToolCall {
				continue
			}
			id := toolCallID(g.Entry, i)
			round = append(round, registry.ToolOutcome{Call: registry.ToolCall{ID: id, Name: b.Name, Args: b.Args},
				Result: tool.Result{Blocks: results[id].Blocks, IsError: results[id].IsError}})
		}
		terminate, err = h.allTerminate(tx, gen, 0)
		return err
	})
	return round, terminate, err
}

// ensureRoot creates the main conversation on its first use, and lets the project draft what it starts with. It may be
// called after writes.
func (h *Harness) ensureRoot(tx *session.Tx) error {
	if err := tx.EnsureRoot(); err != nil {
		return err
	}
	if th := h.threads[session.Root]; th == nil || !th.absent {
		return nil
	}
	return h.chain(h.publication()).ConversationCreated(tx, session.Root)
}

// imageBlock is a picture as a model is shown it.
func imageBlock(i control.Image) llm.Block {
	return llm.Block{Type: llm.Image, Data: i.Data, MimeType: i.MimeType}
}
