package outputitems

import (
	"fmt"
	"slices"
)

// Kind says what an item is to an agent's host. The zero value is an item of no agent kind: a ring, or another node's output.
type Kind string

// The kinds. Source: spec create-agent-node "Output items".
const (
	KindSession Kind = "agent-session" // a versioned snapshot; never drawn as answer or detail
	KindAnswer  Kind = "agent-answer"  // the whole answer of a host-driven run, flat in the body
	KindPart    Kind = "agent-part"    // a row, see PartType
	KindNotice  Kind = "agent-notice"  // a notice, or a plan when metadata.plan is true
	KindError   Kind = "agent-error"   // a failed run
)

// PartType says what an agent-part row is. Only such rows have one, and each has one.
type PartType string

// The part types. Source: spec create-agent-node "Output items".
const (
	PartReasoning  PartType = "reasoning"
	PartText       PartType = "text" // one stretch of the answer of a conversation run
	PartTool       PartType = "tool"
	PartRetry      PartType = "retry" // content.kind is a RetryKind
	PartCompaction PartType = "compaction"
	PartPlan       PartType = "plan" // progress of the plan document; a final plan is a notice
	PartPatch      PartType = "patch"
	PartFile       PartType = "file"
)

// RetryKind is content.kind of a retry row.
type RetryKind string

// The retry kinds. Source: spec create-agent-node "Output items".
const (
	RetryDropped  RetryKind = "dropped"   // the connection broke; the only one shown in a conversation
	RetryRecovery RetryKind = "recovery"  // continued after the process ended
	RetryLength   RetryKind = "length"    // continued after the output limit
	RetryLostCall RetryKind = "lost-call" // a tool call arrived broken
)

// Status is where an item is in its life.
type Status string

// The statuses. Running and waiting items take further chunks; the others are final. The papers name running and completed
// (P-672) and interrupted calls; the rest completes the set.
const (
	StatusRunning     Status = "running"
	StatusWaiting     Status = "waiting" // for a person's decision
	StatusCompleted   Status = "completed"
	StatusFailed      Status = "failed"
	StatusInterrupted Status = "interrupted" // the process ended in the middle; the outcome is unknown
	StatusCancelled   Status = "cancelled"   // somebody stopped it
)

// Final reports whether an item of this status is closed.
func (s Status) Final() bool { return s != StatusRunning && s != StatusWaiting }

// Op is what a chunk does.
type Op string

// The operations. Source: design 3.4.
const (
	OpOpen   Op = "open"
	OpAppend Op = "append"
	OpSet    Op = "set"
	OpDone   Op = "done"
)

// ContentType says what an item's content is: a JSON string of plain or Markdown text, or any JSON value.
type ContentType string

// The content types. The papers name markdown; text and json follow from what items hold.
const (
	TypeText     ContentType = "text"
	TypeMarkdown ContentType = "markdown"
	TypeJSON     ContentType = "json"
)

// Textual reports whether the content is text that can be appended to.
func (t ContentType) Textual() bool { return t == TypeText || t == TypeMarkdown }

// DisplayType says how a host presents an item apart from the flow of rows.
type DisplayType string

// DisplayRing is a gauge drawn from a Ring in the content. Source: P-617.
const DisplayRing DisplayType = "ring"

// Placement says where a host puts such an item.
type Placement string

// PlaceComposerRight is the right side of the input line. Source: P-617.
const PlaceComposerRight Placement = "composer-right"

// Kinds returns the closed set, in the order of the specification.
func Kinds() []Kind { return []Kind{KindSession, KindAnswer, KindPart, KindNotice, KindError} }

// PartTypes returns the closed set, in the order of the specification.
func PartTypes() []PartType {
	return []PartType{PartReasoning, PartText, PartTool, PartRetry, PartCompaction, PartPlan, PartPatch, PartFile}
}

// RetryKinds returns the closed set, in the order of the specification.
func RetryKinds() []RetryKind {
	return []RetryKind{RetryDropped, RetryRecovery, RetryLength, RetryLostCall}
}

// Statuses returns the closed set, open ones first.
func Statuses() []Status {
	return []Status{StatusRunning, StatusWaiting, StatusCompleted, StatusFailed, StatusInterrupted, StatusCancelled}
}

// Ops returns the closed set, in the order of an item's life.
func Ops() []Op { return []Op{OpOpen, OpAppend, OpSet, OpDone} }

// ContentTypes returns the closed set.
func ContentTypes() []ContentType { return []ContentType{TypeText, TypeMarkdown, TypeJSON} }

// DisplayTypes returns the closed set.
func DisplayTypes() []DisplayType { return []DisplayType{DisplayRing} }

// Placements returns the closed set.
func Placements() []Placement { return []Placement{PlaceComposerRight} }

// UnmarshalText takes a word of Kinds.
func (k *Kind) UnmarshalText(word []byte) error { return closed(k, word, Kinds()) }

// UnmarshalText takes a word of PartTypes.
func (p *PartType) UnmarshalText(word []byte) error { return closed(p, word, PartTypes()) }

// UnmarshalText takes a word of RetryKinds.
func (r *RetryKind) UnmarshalText(word []byte) error { return closed(r, word, RetryKinds()) }

// UnmarshalText takes a word of Statuses.
func (s *Status) UnmarshalText(word []byte) error { return closed(s, word, Statuses()) }

// UnmarshalText takes a word of Ops.
func (o *Op) UnmarshalText(word []byte) error { return closed(o, word, Ops()) }

// UnmarshalText takes a word of ContentTypes.
func (t *ContentType) UnmarshalText(word []byte) error { return closed(t, word, ContentTypes()) }

// UnmarshalText takes a word of DisplayTypes.
func (t *DisplayType) UnmarshalText(word []byte) error { return closed(t, word, DisplayTypes()) }

// UnmarshalText takes a word of Placements.
func (p *Placement) UnmarshalText(word []byte) error { return closed(p, word, Placements()) }

func closed[T ~string](into *T, word []byte, set []T) error {
	if err := oneOf(T(word), set); err != nil {
		return err
	}
	*into = T(word)
	return nil
}

func oneOf[T ~string](word T, set []T) error {
	if !slices.Contains(set, word) {
		return fmt.Errorf("%.64q is not one of %v", word, set)
	}
	return nil
}
