package session

import (
	"errors"
	"fmt"
	"slices"
)

// Errors of a fork. Nothing is written.
var (
	// ErrForkPoint reports an entry that the source does not show, or that is not committed yet.
	ErrForkPoint = errors.New("session: no such entry to fork at")
	// ErrForkSource reports a fork whose commit also changes a document that the fork takes over as it is now.
	ErrForkSource = errors.New("session: the document to copy changes in the same commit")
)

// ForkPolicy says what a fork does with a conversation's document.
type ForkPolicy int

// The policies. A document whose rule is not given to Tx.Fork stays behind as with ForkInitial.
const (
	ForkInitial ForkPolicy = iota // nothing is taken: the fork starts with the initial content
	ForkCurrent                   // the content when the fork is made
	ForkAsOf                      // the content that the commit of the fork's entry left; rewindable documents only
)

// ForkRule is what a fork does with the documents of one kind, whatever their keys. Doc.ForkRule makes it; the zero value
// takes nothing.
type ForkRule struct {
	kind    string
	version int
	policy  ForkPolicy
	wrong   error
}

// ForkRule returns the definition's rule for Tx.Fork. A definition that contradicts itself fails there.
func (d Doc[T]) ForkRule() ForkRule {
	wrong := d.Check()
	if wrong == nil && d.Scope != ScopeConversation {
		wrong = fmt.Errorf("document %s: %w: only conversation documents are forked", d.Kind, ErrDefinition)
	}
	return ForkRule{kind: d.Kind, version: d.Version, policy: d.Fork, wrong: wrong}
}

// Fork creates a conversation that shows the source up to the entry at, inclusive, and goes on by itself. No entry is
// copied. Documents follow their rules; tasks, submissions and everything without a rule stay behind. What is copied is the
// source before this commit. The fork has no owner. It may be called after writes. Errors: ErrForkPoint, ErrForkSource,
// ErrDefinition, *VersionError. Source: durable kernel 5, P-131 to P-134.
func (tx *Tx) Fork(source ConversationID, at EntryID, rules ...ForkRule) (ConversationID, error) {
	tx.use()
	current, asOf := false, false
	for i, r := range rules {
		if r.wrong != nil {
			return 0, tx.misuse(r.wrong)
		}
		if slices.ContainsFunc(rules[:i], func(other ForkRule) bool { return other.kind == r.kind }) {
			return 0, tx.misuse(fmt.Errorf("document %s: %w: two fork rules", r.kind, ErrDefinition))
		}
		current, asOf = current || r.policy == ForkCurrent, asOf || r.policy == ForkAsOf
	}
	entry, err := tx.forkPoint(source, at)
	if err != nil {
		return 0, err
	}
	var now, then []Document
	if current {
		now, err = tx.s.storage.Documents(ScopeConversation, int64(source), 0)
	}
	if err == nil && asOf {
		// An entry that the source inherited is older than the source: its documents were those of the entry's conversation.
		then, err = tx.s.storage.Documents(ScopeConversation, int64(entry.Conversation), entry.Seq)
	}
	if err != nil {
		return 0, fmt.Errorf("fork conversation %d: %w", source, err)
	}
	fork := tx.CreateConversation(&Fork{Conversation: source, At: at}, 0)
	for _, r := range rules {
		switch r.policy {
		case ForkInitial:
		case ForkCurrent:
			tx.frozen = append(tx.frozen, Address{Scope: ScopeConversation, Owner: int64(source), Kind: r.kind})
			err = tx.copyDocuments(fork, now, r)
		case ForkAsOf:
			err = tx.copyDocuments(fork, then, r)
		}
		if err != nil {
			return 0, tx.misuse(err)
		}
	}
	return fork, nil
}

// forkPoint returns the committed entry at, which the source must show.
func (tx *Tx) forkPoint(source ConversationID, at EntryID) (Entry, error) {
	if at > 0 {
		list, err := tx.s.storage.Entries(EntryQuery{Conversation: source, From: at, To: at, Limit: 1})
		if err != nil {
			return Entry{}, fmt.Errorf("fork conversation %d: %w", source, err)
		}
		if len(list) == 1 {
			return list[0], nil
		}
	}
	return Entry{}, fmt.Errorf("fork conversation %d at entry %d: %w", source, at, ErrForkPoint)
}

// copyDocuments gives the fork a document of its own for each of list that the rule is about.
func (tx *Tx) copyDocuments(fork ConversationID, list []Document, r ForkRule) error {
	for _, doc := range list {
		if doc.Address.Kind != r.kind {
			continue
		}
		if doc.Version > r.version {
			return &VersionError{Kind: r.kind, Stored: doc.Version, Known: r.version}
		}
		a := doc.Address
		a.Owner = int64(fork)
		tx.draft(DocumentWrite{ID: DocumentID(tx.mint()), Address: a, Version: doc.Version, Rewindable: doc.Rewindable, Create: true, Base: doc.Value},
			&node{raw: doc.Value})
	}
	return nil
}

// checkForks proves that no document was copied as it is now and changed by the same commit.
func (tx *Tx) checkForks() error {
	for _, from := range tx.frozen {
		for _, w := range tx.batch.Documents {
			if a := w.Address; a.Scope == from.Scope && a.Owner == from.Owner && a.Kind == from.Kind {
				return fmt.Errorf("document %s of conversation %d: %w", a.Kind, a.Owner, ErrForkSource)
			}
		}
	}
	return nil
}
