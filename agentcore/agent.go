package agentcore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/internal/ids"
)

// ErrSuspend is the cause that makes the end of Run's context a suspension: context.WithCancelCause, cancel(ErrSuspend).
// Unfinished work is then left as it is and goes on when the session is opened again. Any other cause stops the turn for
// good.
var ErrSuspend = task.ErrSuspended

// Agent is one session with its model and tools. It is safe for concurrent use; turns run one after another.
type Agent struct {
	opts     Options
	provider llm.Provider
	h        *harness.Harness
	id       string // of the session

	mu     sync.Mutex        // guards the rest
	places map[string]*place // tools by where they act
	runs   []*run            // under way, oldest first
}

// New opens the session and takes ownership of it. Unfinished turns rest until Run names them again. Errors: kinds
// input_validation, unsupported, session_busy (another owner, named), conflict (the session has another SessionID),
// storage; what Options.Storage says, as it says it.
func New(ctx context.Context, opts Options) (*Agent, error) {
	provider, err := opts.provider()
	if err == nil {
		err = opts.Session.reserve(opts.ExtraTools)
	}
	if err != nil {
		return nil, err
	}
	storage, err := open(ctx, opts)
	if err != nil {
		return nil, err
	}
	a := &Agent{opts: opts, provider: provider, places: map[string]*place{}}
	o := opts.Session.harness(a.resolve)
	o.Idle = a.idle
	if a.h, err = harness.Open(ctx, storage, o, opts.Sync); err != nil {
		return nil, unread(ctx, opts, err)
	}
	if a.id, err = identify(ctx, a.h.Session(), opts.SessionID); err != nil {
		return nil, errors.Join(unread(ctx, opts, err), a.h.Close())
	}
	return a, nil
}

// unread names the place of a session that was found bad while it was read.
func unread(ctx context.Context, opts Options, err error) error {
	if kind := fault.KindOf(err); ctx.Err() == nil && (kind == "" || kind == fault.Storage) {
		return fault.New(fault.Storage, "open session %q: %w", cmp.Or(opts.DatabasePath, opts.Storage.Label), err)
	}
	return err
}

// SessionID is the session's name: Options.SessionID when that was given as it was made, else the identity of its store. It
// never changes.
func (a *Agent) SessionID() string { return a.id }

// Close suspends what is running and releases the session. Unfinished work is found again when the store is reopened. What
// the file still has to wait for goes on behind it, see Drain; who opens the session waits for that.
func (a *Agent) Close() error {
	errs := []error{a.h.Close()}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.places {
		errs = append(errs, p.close())
	}
	clear(a.places)
	return errors.Join(errs...)
}

// turn is one Run.
type turn struct {
	requestID    string
	conversation session.ConversationID // 0 = the main one
	prompt       string
	images       []llm.Block
	settings     json.RawMessage
	mode         permission.Mode
	sent         control.Mode // what its command asked for while another turn is under way
	host         Host
	compact      bool
}

// Run executes one turn, or tells it again: a repeated RequestID replays what the record holds and goes on from there,
// without asking model or tools twice. Events come after the commit that holds them. The sequence ends after TurnEnd, or
// with one error, which is last: kinds user_input_required (paused; repeat the RequestID to go on), execution_aborted,
// suspended, model_error, empty_answer, owner_lost, conflict, input_validation.
//
// When ctx ends with cause ErrSuspend the work rests; any other end stops the turn durably. Breaking out of the loop does
// neither: the turn goes on until Close.
//
// With Options.Session the turns of inputs that Control submits meanwhile follow, each with its TurnEnd, and the sequence
// ends when no work of the session is left, background work included.
func (a *Agent) Run(ctx context.Context, in Input, host Host) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t, err := a.turn(in, host)
		if err != nil {
			yield(nil, err)
			return
		}
		r := a.begin(t)
		defer a.end(r)
		if a.tell(ctx, t, yield) && a.opts.Session != nil {
			a.lateTurns(ctx, r, yield)
		}
	}
}

// tell follows a turn, and reports whether the reader wants to hear more.
func (a *Agent) tell(ctx context.Context, t turn, yield func(Event, error) bool) (more bool) {
	if t.mode == permission.Plan && !t.compact {
		return a.planTurn(ctx, t, yield)
	}
	end, ok := a.follow(ctx, t, yield)
	return ok && yield(end, nil)
}

func (a *Agent) turn(in Input, host Host) (turn, error) {
	s, err := a.opts.settingsOf(in)
	if err != nil {
		return turn{}, err
	}
	byName := in.Prompt == "/compact" || in.Prompt == "/summarize"
	if in.Prompt == "" && len(in.Images) == 0 && !in.Compact {
		return turn{}, fault.New(fault.InputValidation, "prompt: must not be empty without images")
	}
	t := turn{requestID: in.RequestID, prompt: in.Prompt, mode: s.Mode, host: host, compact: in.Compact || byName}
	if byName {
		t.prompt = ""
	}
	if t.requestID == "" {
		t.requestID = ids.New(ids.Request)
	}
	for _, img := range in.Images {
		t.images = append(t.images, llm.Block{Type: llm.Image, Data: img.Data, MimeType: img.MimeType})
	}
	t.settings, err = json.Marshal(s)
	return t, err
}

// follow runs one submission to its end. ok is false when yield has ended the sequence.
func (a *Agent) follow(ctx context.Context, t turn, yield func(Event, error) bool) (TurnEnd, bool) {
	var h harness.Host
	if t.host != nil {
		h = approver{t.host}
	}
	for e, err := range a.h.Run(ctx, harness.Submit{RequestID: t.requestID, Conversation: t.conversation, Prompt: t.prompt, Images: t.images, Settings: t.settings, Mode: t.sent, Compact: t.compact}, h) {
		if err != nil {
			yield(nil, recordFault(ctx, err))
			return TurnEnd{}, false
		}
		switch e := e.(type) {
		case TurnEnd:
			return e, true
		case UsageReport:
			if t.host != nil {
				if err := t.host.ReportUsage(ctx, e); err != nil {
					yield(nil, err)
					return TurnEnd{}, false
				}
			}
		}
		if !yield(e, nil) {
			return TurnEnd{}, false
		}
	}
	return TurnEnd{}, false
}
