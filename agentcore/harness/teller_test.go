package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// storyData is what a story tells of an entry's data.
type storyData struct {
	Sub   session.SubmissionID
	Retry *struct {
		Kind          string
		Attempt, Most int
	}
	Call *struct {
		Entry session.EntryID
		Index int
		Name  string
		Code  string
	}
	Usage []struct{ RecordID string }
}

// entryLine is an entry in the words of a story.
func (p *player) entryLine(e session.Entry) string {
	var d storyData
	var m llm.Message
	p.decode(e.Data, &d)
	if e.Kind == "workflow.system" {
		return "system"
	}
	p.decode(e.Model, &m)
	switch e.Kind {
	case "workflow.user":
		line := fmt.Sprintf("user %s %q", p.names[d.Sub], m.Text())
		for _, b := range m.Blocks {
			if b.Type == llm.Image {
				line += " +image"
			}
		}
		return line
	case "workflow.compaction":
		var d struct{ Compaction struct{ Summary string } }
		p.decode(e.Data, &d)
		line := fmt.Sprintf("summary %q", clipped(d.Compaction.Summary))
		if e.Head != e.ID {
			line += " and what came after"
		}
		return line
	case "workflow.reset":
		if e.Model == nil {
			return "reset"
		}
		return fmt.Sprintf("reset %q", m.Text())
	case "workflow.continuation":
		if d.Retry == nil || d.Retry.Kind == "" {
			return "continue"
		}
		return fmt.Sprintf("continue %s %d/%d", d.Retry.Kind, d.Retry.Attempt, d.Retry.Most)
	case "workflow.tool-result":
		code := d.Call.Code
		if code == "" {
			code = "ok"
		}
		return fmt.Sprintf("result %d %s %s %q", d.Call.Index, d.Call.Name, code, clipped(m.Text()))
	case "workflow.assistant":
		line := "assistant"
		for _, b := range m.Blocks {
			switch b.Type {
			case llm.Text, llm.Refusal:
				line += fmt.Sprintf(" %q", b.Text)
			case llm.Thinking:
				line += fmt.Sprintf(" (%s)", b.Text)
			case llm.ToolCall:
				line += fmt.Sprintf(" call %s %s%s", b.Name, b.Args, b.BadArgs)
			case llm.Image, llm.Native:
			}
		}
		if m.Stop != llm.StopEnd && m.Stop != llm.StopToolUse {
			line += " " + string(m.Stop)
		}
		return line
	}
	return e.Kind
}

// clipped keeps the beginning of a text, enough to know it.
func clipped(s string) string {
	const most = 48
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// submissionLine tells what happened to a submission, where its entry does not.
func (p *player) submissionLine(sub session.Submission) string {
	if strings.HasPrefix(sub.RequestID, "compaction:") {
		sub.RequestID = "compaction" // its number is chance
	}
	switch sub.Status {
	case session.SubmissionQueued:
		var payload struct{ Mode control.Mode }
		p.decode(sub.Payload, &payload)
		return strings.TrimSpace(fmt.Sprintf("%s queued %s", sub.RequestID, payload.Mode))
	case session.SubmissionUnanswered:
		return fmt.Sprintf("%s unanswered %s: %s", sub.RequestID, sub.Reason, sub.Detail)
	case session.SubmissionAnswered, session.SubmissionWithdrawn:
		return fmt.Sprintf("%s %s", sub.RequestID, sub.Status)
	case session.SubmissionPlaced:
	}
	return ""
}

// story is what came out. Results that stand together are told in call order: which of two calls ends first is chance. At
// its end stands how often calls ran that must not repeat.
func (p *player) story() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := slices.Clone(p.log)
	for i := 0; i < len(lines); {
		end := i
		for end < len(lines) && strings.HasPrefix(lines[end], "result ") {
			end++
		}
		sort.Strings(lines[i:end])
		i = max(end, i+1)
	}
	counts := map[string]int{}
	for call, n := range p.runs {
		name, _, _ := strings.Cut(call, " ")
		counts[name] += n
	}
	for _, t := range p.tools {
		if name := t.Spec().Name; t.Replay() == tool.Never && counts[name] > 0 {
			lines = append(lines, fmt.Sprintf("%s ran %d", name, counts[name]))
		}
	}
	return lines
}

// storyTool does what its arguments say: hold waits for a release, say is its output, fail its error, end asks to end the
// turn.
type storyTool struct {
	p      *player
	name   string
	policy tool.ReplayPolicy
}

func (s storyTool) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: s.name, Description: s.name, Schema: json.RawMessage(`{"type":"object"}`)}
}
func (s storyTool) Replay() tool.ReplayPolicy                             { return s.policy }
func (s storyTool) Prepare(args json.RawMessage) (json.RawMessage, error) { return args, nil }

func (s storyTool) Execute(ctx context.Context, c tool.Call) (tool.Result, error) {
	var args struct {
		Hold, Say, Fail string
		Long            int // tokens of output
		End             bool
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return tool.Result{}, err
	}
	hold := s.p.began(s.name, c.ID, args.Hold)
	if args.Hold != "" {
		select {
		case <-hold:
		case <-ctx.Done():
			return tool.Result{}, context.Cause(ctx)
		}
	}
	if args.Fail != "" {
		return tool.Result{}, errors.New(args.Fail)
	}
	r := tool.Text(args.Say + strings.Repeat("word", args.Long))
	r.Terminate = args.End
	return r, nil
}

// began notes an execution and returns what it waits for.
func (p *player) began(name, call, hold string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.nudge()
	p.seen["tool "+name+" started"] = true
	p.runs[name+" "+call]++
	return p.hold(hold)
}

func (p *player) hold(name string) chan struct{} {
	if p.holds[name] == nil {
		p.holds[name] = make(chan struct{})
	}
	return p.holds[name]
}

func (p *player) release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hold := p.hold(name)
	select {
	case <-hold:
	default:
		close(hold)
	}
}

// storyHost answers approvals: approve, pause, or deny with a text. player.mu guards it.
type storyHost struct {
	p      *player
	answer string
	paused bool
	ids    map[string]bool // identities it was asked about
}

func (s *storyHost) set(answer string) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.answer, s.paused = answer, false
}

func (s *storyHost) Approve(_ context.Context, a harness.Approval) error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	defer s.p.nudge()
	switch verb, text, _ := strings.Cut(s.answer, " "); verb {
	case "approve":
		return nil
	case "deny":
		return errors.New(text)
	}
	s.paused = true
	return fault.New(fault.UserInputRequired, "may I run %s?", a.Name)
}

// checkInvariants reads the record as it is at the end of a story.
// Invariant: INV-11, INV-12, INV-13, INV-15, INV-17, INV-18
func (p *player) checkInvariants() {
	storage, err := p.open()
	if err != nil {
		p.t.Fatal(err)
	}
	sess, err := session.Open(context.Background(), storage)
	if err != nil {
		p.t.Fatal(err)
	}
	defer sess.Close()
	err = sess.View(context.Background(), func(tx *session.Tx) error {
		all, err := tx.Conversations()
		if err != nil {
			return err
		}
		for _, c := range all {
			entries, err := tx.Entries(session.EntryQuery{Conversation: c.ID})
			if err != nil {
				return err
			}
			entries = slices.DeleteFunc(entries, func(e session.Entry) bool { return e.Conversation != c.ID })
			subs, err := tx.Submissions(c.ID)
			if err != nil {
				return err
			}
			p.checkEntries(entries, len(tx.LiveTasks()) > 0)
			for _, sub := range subs {
				if sub.Status == session.SubmissionPlaced && len(tx.LiveTasks()) == 0 {
					p.t.Errorf("%s is under way, but nothing works at it", sub.RequestID)
				}
			}
		}
		return nil
	})
	if err != nil {
		p.t.Error(err)
	}
	for call, n := range p.runs {
		name, _, _ := strings.Cut(call, " ")
		for _, t := range p.tools {
			if t.Spec().Name == name && t.Replay() == tool.Never && n > 1 {
				p.t.Errorf("call %s ran %d times; so far:\n%s", call, n, strings.Join(p.log, "\n"))
			}
		}
	}
}

func (p *player) checkEntries(entries []session.Entry, busy bool) {
	calls, users, bills := map[string]int{}, map[session.SubmissionID]int{}, map[string]int{}
	for _, e := range entries {
		var d storyData
		var m llm.Message
		p.decode(e.Data, &d)
		for _, b := range d.Usage {
			if bills[b.RecordID]++; bills[b.RecordID] > 1 {
				p.t.Errorf("response %s is billed %d times", b.RecordID, bills[b.RecordID])
			}
		}
		switch e.Kind {
		case "workflow.user":
			if users[d.Sub]++; users[d.Sub] > 1 {
				p.t.Errorf("the input of %s stands twice", p.names[d.Sub])
			}
		case "workflow.tool-result":
			calls[fmt.Sprintf("%d.%d", d.Call.Entry, d.Call.Index)]--
		case "workflow.assistant":
			p.decode(e.Model, &m)
			for i, b := range m.Blocks {
				if b.Type == llm.ToolCall && (m.Stop == llm.StopToolUse || m.Stop == llm.StopEnd) {
					calls[fmt.Sprintf("%d.%d", e.ID, i)]++
				}
			}
		}
	}
	for call, n := range calls {
		if n < 0 || n > 0 && !busy {
			p.t.Errorf("call %s: %d results too few", call, n)
		}
	}
}
