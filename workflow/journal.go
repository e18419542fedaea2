package workflow

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
)

// Journal is the durable memory of one node visit. Entries are found by key; a key used twice in one attempt is an error.
type Journal interface {
	// Once runs effect at most once per key and returns its recorded result. The intent is committed before the effect,
	// the result after it. An attempt that finds an intent without a result runs the effect again when again is set, else
	// it returns an error of kind fault.Interrupted: the outcome is unknown.
	Once(key string, again bool, effect func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// InTx runs effect inside the run store's own transaction together with the record of its result: both are there or
	// neither, so it happens exactly once. An error of effect leaves nothing. A store that cannot do that returns an error of
	// kind fault.Unsupported.
	InTx(key string, effect func(context.Context, Tx) (json.RawMessage, error)) (json.RawMessage, error)
	// Sleep returns nil once d has passed since the first call with key; before, an error that the node hands on.
	Sleep(key string, d time.Duration) error
	// Receive returns the next unread signal of the topic, or an error that the node hands on while there is none. A
	// timeout above 0 ends the wait with an error of kind DeadlineExceeded.
	Receive(topic string, timeout time.Duration) (json.RawMessage, error)
	// Chunks yields the chunks of earlier attempts that still count, in commit order.
	Chunks() iter.Seq2[json.RawMessage, error]
	// Source names where the next chunk that is delivered or emitted comes from: a position in another ledger. A chunk
	// whose source the run already holds is dropped, so that a node which projects that ledger may begin again earlier.
	Source(key string)
	// LastSource returns the source of the newest chunk of the visit that has one, else "".
	LastSource() string
}

// Committed yields the chunks that earlier attempts of a node with ResumeAfterCrash delivered, in commit order. In a first
// attempt, and in a node without that option, there are none. It panics on a chunk that Chunk cannot hold, or when the
// log cannot be read: the engine turns the panic into the failure of the attempt.
func Committed[Chunk any](ctx NodeContext) iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		for raw, err := range ctx.Journal().Chunks() {
			var chunk Chunk
			if err == nil {
				err = json.Unmarshal(raw, &chunk)
			}
			if err != nil {
				panic(fault.New(fault.Storage, "committed chunks of %q: %w", ctx.Run().Path, err))
			}
			if !yield(chunk) {
				return
			}
		}
	}
}

// Once runs effect at most once under key and returns its recorded result in later attempts. When a crash hit between
// the intent and the result, the error has kind fault.Interrupted. An error of effect is not recorded.
func Once[T any](ctx NodeContext, key string, effect func(context.Context) (T, error)) (T, error) {
	var out T
	raw, err := ctx.Journal().Once(key, false, func(ctx context.Context) (json.RawMessage, error) {
		value, err := effect(ctx)
		if err != nil {
			return nil, err
		}
		return encode(value)
	})
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fault.New(fault.Storage, "recorded effect %q: %w", key, err)
	}
	return out, nil
}

// Tx is the run store's own transaction, for tables of the program's own: those whose names begin with "app_", as do their
// indexes. A statement that reaches for anything else, or would end the transaction, is refused, and the transaction with
// it. It is valid inside the function that got it, on that goroutine.
type Tx interface {
	// Exec runs one statement, values as arguments, and returns how many rows an INSERT, UPDATE or DELETE changed.
	Exec(sql string, args ...any) (changed int64, err error)
	// Query runs one statement and yields its rows: nil, int64, float64, string or []byte for each column. An error is last.
	Query(sql string, args ...any) iter.Seq2[[]any, error]
}

// InTx runs effect exactly once under key, however often the node is entered: what it wrote through Tx and the record that
// it has run are one commit. Later attempts get the recorded result. An error of effect undoes what it wrote and is
// returned; the next attempt runs it again.
//
// effect holds up every commit of the store while it runs: it should do its statements and return. It must not use the
// node's context or the engine, which would wait for it; a call of the context is refused with fault.Conflict. The memory
// store has no transactions: there the error has kind fault.Unsupported, and effect does not run.
func InTx[T any](ctx NodeContext, key string, effect func(context.Context, Tx) (T, error)) (T, error) {
	var out T
	raw, err := ctx.Journal().InTx(key, func(ctx context.Context, tx Tx) (json.RawMessage, error) {
		value, err := effect(ctx, tx)
		if err != nil {
			return nil, err
		}
		return encode(value)
	})
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fault.New(fault.Storage, "recorded effect %q: %w", key, err)
	}
	return out, nil
}

// Sleep parks the run until d has passed since the first call with key. While it sleeps it costs no goroutine.
func Sleep(ctx NodeContext, key string, d time.Duration) error { return ctx.Journal().Sleep(key, d) }

// Recv returns the next unread signal of topic, parking the run until there is one. A timeout of 0 waits for ever.
func Recv[T any](ctx NodeContext, topic string, timeout time.Duration) (T, error) {
	var out T
	raw, err := ctx.Journal().Receive(topic, timeout)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fault.New(fault.InputValidation, "signal %q: %w", topic, err)
	}
	return out, nil
}
