package harness

import (
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
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
