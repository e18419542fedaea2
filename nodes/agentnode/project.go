package agentnode

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/outputitems"
)

// projector turns the events of a turn into chunks, and passes on only those that change what is known. It is owned by
// one goroutine.
type projector struct {
	acc       *outputitems.Accumulator
	key       string // session key
	run       string // run id and visit: a second run of the same session makes items of its own
	text      string // the text or reasoning item still open
	shrinking string // the compaction still open
}

// newProjector starts behind the chunks that are committed.
func newProjector(key, run string, committed func(func(outputitems.Chunk) bool)) (*projector, error) {
	p := &projector{acc: &outputitems.Accumulator{}, key: key, run: run}
	for c := range committed {
		if _, err := p.acc.Apply(c); err != nil {
			return nil, fmt.Errorf("committed chunk: %w", err)
		}
	}
	return p, nil
}

// fresh returns those of chunks that change something, in order, and folds them in.
func (p *projector) fresh(chunks ...outputitems.Chunk) ([]outputitems.Chunk, error) {
	var out []outputitems.Chunk
	for _, c := range chunks {
		changed, err := p.acc.Apply(c)
		if err != nil {
			return nil, err
		}
		if changed {
			out = append(out, c)
		}
	}
	return out, nil
}

func (p *projector) id(parts ...string) string {
	return ids.Derived(ids.Item, append([]string{p.run, p.key}, parts...)...)
}

// ToolRow is the content of a tool row.
type ToolRow struct {
	Tool       string          `json:"tool"`
	ToolCallID string          `json:"toolCallId"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Output     string          `json:"output,omitempty"` // the end of the live output
	Result     string          `json:"result,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
	Code       string          `json:"code,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	DurationMS int64           `json:"durationMs,omitempty"`
}

// RetryRow is the content of a retry row.
type RetryRow struct {
	Kind        string `json:"kind"`
	Attempt     int    `json:"attempt"`
	MaxAttempts int    `json:"maxAttempts"`
	Reason      string `json:"reason"`
}

// liveTail is how much of a call's live output its row shows, in bytes.
const liveTail = 4 << 10

// chunks returns what an event means for the items, the known included.
func (p *projector) chunks(e agentcore.Event) ([]outputitems.Chunk, error) {
	switch e := e.(type) {
	case agentcore.TextDelta:
		return p.delta(outputitems.OpenText, e.Place, e.Text), nil
	case agentcore.ThinkingDelta:
		return p.delta(outputitems.OpenReasoning, e.Place, e.Text), nil
	case agentcore.ToolEvent:
		c, err := p.tool(e)
		return append(p.closeText(outputitems.StatusCompleted), c...), err
	case agentcore.Retry:
		if e.Entry == 0 { // a plain resend: nothing was shown, so there is nothing to explain
			return nil, nil
		}
		c, err := p.retry(e)
		return append(p.closeText(outputitems.StatusInterrupted), c...), err
	case agentcore.Compaction:
		c, err := p.compaction(e)
		return append(p.closeText(outputitems.StatusCompleted), c...), err
	case agentcore.Plan:
		if e.Phase != agentcore.End {
			return nil, nil
		}
		return append(p.closeText(outputitems.StatusCompleted), outputitems.OpenPlan(p.id("plan", strconv.Itoa(e.Revision)), e.Text)), nil
	case agentcore.PlanApproval:
		return []outputitems.Chunk{outputitems.OpenNotice(p.id("approval", e.RequestID), approvalText(e))}, nil
	case agentcore.ContextUsage:
		return p.ring(e)
	case agentcore.TurnEnd:
		return p.closeText(outputitems.StatusCompleted), nil
	}
	return nil, nil
}

func approvalText(e agentcore.PlanApproval) string {
	switch {
	case e.Approved:
		return fmt.Sprintf("Plan %d was approved.", e.Revision)
	case e.Instructions == "":
		return fmt.Sprintf("Plan %d was sent back for revision.", e.Revision)
	}
	return fmt.Sprintf("Plan %d was sent back for revision: %s", e.Revision, e.Instructions)
}

func (p *projector) delta(open func(string) outputitems.Chunk, at agentcore.Place, text string) []outputitems.Chunk {
	id := p.id("block", strconv.FormatInt(int64(at.Entry), 10), strconv.Itoa(at.Block))
	var out []outputitems.Chunk
	if p.text != id {
		out = append(p.closeText(outputitems.StatusCompleted), open(id))
		p.text = id
	}
	known := 0
	if it, ok := p.acc.Item(id); ok {
		known = len(it.Text())
	}
	if skip := known - at.Offset; skip > 0 { // told again after a restart: pass on what is behind the known
		if skip >= len(text) {
			return out
		}
		at.Offset, text = known, text[skip:]
	}
	return append(out, outputitems.AppendText(id, at.Offset, text))
}

func (p *projector) closeText(status outputitems.Status) []outputitems.Chunk {
	if p.text == "" {
		return nil
	}
	id := p.text
	p.text = ""
	if it, ok := p.acc.Item(id); ok && it.Status != outputitems.StatusRunning {
		return nil
	}
	return []outputitems.Chunk{outputitems.Done(id, status)}
}

func (p *projector) tool(e agentcore.ToolEvent) ([]outputitems.Chunk, error) {
	id := p.id("tool", e.ToolCallID)
	content := ToolRow{Tool: e.Name, ToolCallID: e.ToolCallID, Arguments: e.Args}
	if it, ok := p.acc.Item(id); ok {
		if it.Status != outputitems.StatusRunning {
			return nil, nil
		}
		if j, ok := it.Content.(outputitems.JSON); ok && e.Phase != agentcore.Start {
			if err := j.Decode(&content); err != nil {
				return nil, err
			}
		}
	}
	switch e.Phase {
	case agentcore.Start:
		j, err := outputitems.NewJSON(content)
		return []outputitems.Chunk{outputitems.OpenPart(id, outputitems.PartTool, j)}, err
	case agentcore.Update:
		content.Output = tail(content.Output+e.Output, liveTail)
		j, err := outputitems.NewJSON(content)
		return []outputitems.Chunk{outputitems.SetContent(id, j)}, err
	case agentcore.End:
	}
	content.Result, content.IsError, content.Code, content.Details = (llm.Message{Blocks: e.Result}).Text(), e.IsError, e.Code, e.Details
	content.Output, content.DurationMS = "", e.Duration.Milliseconds()
	j, err := outputitems.NewJSON(content)
	return []outputitems.Chunk{outputitems.SetContent(id, j), outputitems.Done(id, toolStatus(e))}, err
}

func toolStatus(e agentcore.ToolEvent) outputitems.Status {
	switch {
	case e.Code == "interrupted":
		return outputitems.StatusInterrupted
	case e.Code == "aborted":
		return outputitems.StatusCancelled
	case e.IsError:
		return outputitems.StatusFailed
	}
	return outputitems.StatusCompleted
}

// tail returns the last n bytes of s at most, from a rune's edge.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && s[0]&0xC0 == 0x80 {
		s = s[1:]
	}
	return s
}

func (p *projector) retry(e agentcore.Retry) ([]outputitems.Chunk, error) {
	id := p.id("retry", strconv.FormatInt(int64(e.Entry), 10))
	j, err := outputitems.NewJSON(RetryRow{string(e.Kind), e.Attempt, e.MaxAttempts, e.Reason})
	return []outputitems.Chunk{outputitems.OpenPart(id, outputitems.PartRetry, j), outputitems.Done(id, outputitems.StatusCompleted)}, err
}

// CompactionRow is the content of a compaction row.
type CompactionRow struct {
	Auto    bool   `json:"auto"`
	Summary string `json:"summary,omitempty"`
}

func (p *projector) compaction(e agentcore.Compaction) ([]outputitems.Chunk, error) {
	id := p.id("compaction", strconv.FormatInt(int64(e.Task), 10))
	j, err := outputitems.NewJSON(CompactionRow{e.Auto, e.Summary})
	_, known := p.acc.Item(id)
	var out []outputitems.Chunk
	if !known {
		out = append(out, outputitems.OpenPart(id, outputitems.PartCompaction, j))
	}
	if p.shrinking = id; e.Phase == agentcore.End {
		p.shrinking = ""
		out = append(out, outputitems.SetContent(id, j), outputitems.Done(id, outputitems.StatusCompleted))
	}
	return out, err
}

// broken closes what a failure leaves open.
func (p *projector) broken() []outputitems.Chunk {
	out := p.closeText(outputitems.StatusInterrupted)
	if p.shrinking != "" {
		out = append(out, outputitems.Done(p.shrinking, outputitems.StatusFailed))
	}
	return out
}

func (p *projector) ring(e agentcore.ContextUsage) ([]outputitems.Chunk, error) {
	make := outputitems.SetRing
	if _, ok := p.acc.Item(outputitems.RingID(p.key)); !ok {
		make = outputitems.OpenRing
	}
	c, err := make(p.key, float64(e.Used), float64(e.Total))
	return []outputitems.Chunk{c}, err
}
