package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/harness/turn"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/internal/specscript"
)

// fate decides at which commits the process of a story dies. It is asked before each one and after it landed.
type fate interface {
	before(p *player, n int) bool
	after(p *player, n int) bool
}

// nobody dies.
type nobody struct{}

func (nobody) before(*player, int) bool { return false }
func (nobody) after(*player, int) bool  { return false }

// everyCommit dies at each commit that leaves nothing half done: no part of an answer, no call that must not repeat.
type everyCommit struct{}

func (everyCommit) before(*player, int) bool { return false }
func (everyCommit) after(p *player, _ int) bool {
	return !p.partial && len(p.fragile) == 0 && !p.counting
}

// atCommit dies once, at commit n from 0: before it, or behind it with the reply lost.
type atCommit struct {
	n    int
	late bool
	done bool
}

func (a *atCommit) before(_ *player, n int) bool { return a.hit(n, !a.late) }
func (a *atCommit) after(_ *player, n int) bool  { return a.hit(n, a.late) }
func (a *atCommit) hit(n int, mine bool) bool {
	if a.done || !mine || n != a.n {
		return false
	}
	a.done = true
	return true
}

// player plays one story. The rig's hooks and the story's goroutine share what mu guards.
type player struct {
	t      *testing.T
	s      specscript.Story
	open   opener
	fate   fate
	strict bool // the story must come out, not only the invariants
	model  *scripted.Model
	script []scripted.Response

	window     int64
	compaction compaction.Settings
	h          *harness.Harness
	host       *storyHost
	tools      []harness.Offered
	signal     chan struct{} // capacity 1: something happened

	mu       sync.Mutex
	commits  int
	dead     bool   // the process is gone: nothing it writes lands
	fail     string // the next commit's fault
	next     int    // response of the script in turn
	asked    bool   // it was asked for and has led to nothing yet
	partial  bool   // a part of an answer is committed
	counting bool   // the newest commit counts a restart: dying of each one would never get further
	fragile  map[session.TaskID]bool
	live     map[session.TaskID]session.Task // generations
	holds    map[string]chan struct{}
	seen     map[string]bool // tools that began, texts that were committed
	runs     map[string]int  // executions by call
	names    map[session.SubmissionID]string
	subs     map[session.SubmissionID]session.Submission
	log      []string

	forks    map[string]session.ConversationID // by the command that made them
	tasks    map[string]session.TaskID
	branches []session.ConversationID // all but the main one, in the order they were made
	started  map[session.TaskID]string
}

func newPlayer(t *testing.T, s specscript.Story, open opener, f fate) *player {
	p := &player{t: t, s: s, open: open, fate: f, signal: make(chan struct{}, 1), fragile: map[session.TaskID]bool{}, live: map[session.TaskID]session.Task{},
		holds: map[string]chan struct{}{}, seen: map[string]bool{}, runs: map[string]int{}, names: map[session.SubmissionID]string{}, subs: map[session.SubmissionID]session.Submission{},
		forks: map[string]session.ConversationID{}, tasks: map[string]session.TaskID{}, started: map[session.TaskID]string{}}
	_, crash := f.(*atCommit)
	p.strict = !crash
	for _, line := range s.Settings["model"] {
		rs, err := scripted.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		p.script = append(p.script, rs...)
	}
	p.model = scripted.New(scripted.Func(p.respond), scripted.Options{})
	p.window = 10_000
	for _, line := range s.Settings["window"] {
		if _, err := fmt.Sscan(line, &p.window); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range s.Settings["compaction"] {
		p.compaction.Off = line == "off"
	}
	p.setTools("read safe, bash never")
	for _, line := range s.Settings["tools"] {
		p.setTools(line)
	}
	for _, answer := range s.Settings["host"] {
		p.host = &storyHost{p: p, answer: answer}
	}
	return p
}

// setTools reads "name safe|never [own], …".
func (p *player) setTools(line string) {
	p.tools = nil
	for _, one := range strings.Split(line, ",") {
		words := strings.Fields(one)
		if len(words) < 2 || words[1] != string(tool.Safe) && words[1] != string(tool.Never) {
			p.t.Fatalf("tools: %q: want a name and safe or never", one)
		}
		p.tools = append(p.tools, harness.Offered{Tool: storyTool{p, words[0], tool.ReplayPolicy(words[1])}, Own: len(words) > 2 && words[2] == "own"})
	}
}

// respond gives the script's next response. A request that has led to no commit gets the same one again, as from a model
// that answers equal requests alike.
func (p *player) respond(req scripted.Request) (scripted.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next >= len(p.script) {
		if p.strict {
			p.t.Errorf("model request %d was not planned; its last message is %q", req.Number, req.LastUser())
		}
		return scripted.Say("That is all."), nil
	}
	p.asked = true
	return p.script[p.next], nil
}

func (p *player) boot() {
	storage, err := p.open()
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.dead = false
	p.mu.Unlock()
	resolve := func(context.Context, json.RawMessage) (harness.Setup, error) {
		return harness.Setup{Provider: p.model.Provider(), Model: "m", System: "Be brief.", Window: p.window, Tools: p.tools, Compaction: p.compaction}, nil
	}
	if p.h, err = harness.Open(p.t.Context(), watched{storage, p}, harness.Options{Resolve: resolve, Registry: p.registry()}, session.Auto); err != nil {
		p.t.Fatal(err)
	}
	p.resume()
}

func (p *player) resume() {
	var host harness.Host
	if p.host != nil {
		host = p.host
	}
	if err := p.h.Resume(p.t.Context(), host); err != nil && !p.gone() {
		p.t.Errorf("resume: %v", err)
	}
}

// die ends the process: what it still tries to write does not land.
func (p *player) die() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.reopen()
}

func (p *player) reopen() {
	if err := p.h.Close(); err != nil && !errors.Is(err, errPowerCut) {
		p.t.Errorf("close: %v", err)
	}
	p.boot()
}

func (p *player) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *player) play() {
	p.boot()
	for _, c := range p.s.Commands {
		p.do(c)
		synctest.Wait() // what follows from a command has happened when the next one comes
	}
	if !p.strict {
		p.mu.Lock()
		holds := slices.Collect(maps.Keys(p.holds))
		p.mu.Unlock()
		for _, name := range holds {
			p.release(name)
		}
		p.wait("idle", func() bool { return len(p.live) == 0 })
	}
	if err := p.h.Close(); err != nil && !p.gone() {
		p.t.Errorf("close: %v", err)
	}
	p.checkInvariants()
}

// do carries one command out; when the process dies of it, the next one does it again, as a client would.
func (p *player) do(c specscript.Command) {
	for {
		said, err := p.act(c)
		if err != nil && p.gone() {
			p.reopen()
			continue
		}
		if kind := fault.KindOf(err); kind != "" {
			said = fmt.Sprintf("%s refused: %s", c.Word(0), kind)
		} else if err != nil {
			p.t.Errorf("line %d, %s: %v", c.Line, c.Text, err)
		}
		if said != "" {
			p.tell(said)
		}
		return
	}
}

func (p *player) act(c specscript.Command) (said string, err error) {
	ctx, id := p.t.Context(), c.Word(0)
	if command := p.command(c); command != nil {
		r, err := p.h.Control(ctx, command, nil)
		if err != nil {
			return "", err
		}
		return p.receipt(command, r), nil
	}
	switch c.Verb {
	case "summarise": // as a prompt /compact does
		_, err = p.h.Submit(ctx, harness.Submit{RequestID: id, Prompt: c.Word(1), Compact: true})
	case "kill":
		p.die()
	case "reopen":
		p.reopen()
	case "fail-next-commit":
		p.mu.Lock()
		p.fail = id
		p.mu.Unlock()
	case "approve", "deny", "pause":
		p.host.set(strings.TrimSpace(c.Verb + " " + id))
		p.resume()
	case "retool":
		p.setTools(id)
	case "release":
		p.release(id)
	case "until":
		p.until(c)
	case "sent":
		said = p.sent()
	case "answer":
		var a harness.Answer
		a, err = p.h.AnswerOf(ctx, id)
		said = fmt.Sprintf("%s was answered %q", id, a.Text)
	default:
		p.t.Fatalf("line %d: unknown command %q", c.Line, c.Verb)
	}
	return said, err
}

// command is what a client sends, nil when the line is about something else.
func (p *player) command(c specscript.Command) control.Command {
	id, on := c.Word(0), p.conversation(c)
	switch c.Verb {
	case "submit":
		s := control.Submit{RequestID: id, TargetID: on, Prompt: c.Word(1), Mode: control.Mode(c.Options["mode"])}
		if image := c.Options["image"]; image != "" {
			s.Images = []control.Image{{Data: []byte(image), MimeType: "image/png"}}
		}
		return s
	case "reset":
		return control.Reset{RequestID: id, TargetID: on, Handoff: c.Word(1)}
	case "withdraw":
		return control.Withdraw{RequestID: id, TargetID: on, InputID: c.Word(1)}
	case "promote":
		return control.Promote{RequestID: id, TargetID: on, InputID: c.Word(1)}
	case "cancel":
		cancel := control.Cancel{RequestID: id, TargetID: on, Scope: control.Scope(c.Options["scope"])}
		if cancel.Scope == "" {
			cancel.Scope = control.Foreground
		}
		cancel.TaskID = p.tasks[c.Options["task"]]
		return cancel
	case "fork":
		return control.Fork{RequestID: id, TargetID: on, EntryID: p.entry(c.Word(1))}
	case "compact":
		return control.Compact{RequestID: id, TargetID: on, Instructions: c.Word(1)}
	case "delete":
		return control.Delete{RequestID: id, TargetID: on}
	case "task":
		input := json.RawMessage(nil)
		if c.Word(2) != "" {
			input = json.RawMessage(c.Word(2))
		}
		return control.Task{RequestID: id, TargetID: on, Name: c.Word(1), Input: input, Background: c.Options["background"] != ""}
	}
	return nil
}

// receipt says what the client of a story hears; most receipts say nothing new.
func (p *player) receipt(c control.Command, r control.Receipt) string {
	switch c := c.(type) {
	case control.Withdraw, control.Promote:
		return fmt.Sprintf("%s: %s %s", r.RequestID, r.InputID, r.Status)
	case control.Fork:
		p.forks[r.RequestID] = r.ForkID
	case control.Task:
		p.tasks[r.RequestID] = r.TaskID
	case control.Cancel:
		if r.Status != control.Accepted {
			return fmt.Sprintf("%s: %s", c.RequestID, r.Status)
		}
	}
	return ""
}

// conversation is the one that a line is for: on=REQUEST names a fork by the command that made it.
func (p *player) conversation(c specscript.Command) session.ConversationID {
	on := c.Options["on"]
	if on == "" {
		return 0
	}
	if on == "child" && len(p.branches) > 0 { // the newest conversation that a task has made
		return p.branches[len(p.branches)-1]
	}
	id, known := p.forks[on]
	if !known && p.strict {
		p.t.Fatalf("line %d: no fork %q", c.Line, on)
	}
	return id
}

// entry is the newest entry of the main conversation that says text.
func (p *player) entry(text string) (id session.EntryID) {
	err := p.h.Session().View(p.t.Context(), func(tx *session.Tx) error {
		list, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
		for _, e := range list {
			var m llm.Message
			if id == 0 && json.Unmarshal(e.Model, &m) == nil && m.Text() == text {
				id = e.ID
			}
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *player) until(c specscript.Command) {
	switch c.Word(0) {
	case "idle":
		p.wait(c.Text, func() bool { return len(p.live) == 0 })
	case "paused":
		p.wait(c.Text, func() bool { return p.host.paused })
	case "tool", "text":
		key := strings.Join(c.Words, " ")
		p.wait(c.Text, func() bool { return p.seen[key] })
	default: // a line of the story
		p.wait(c.Text, func() bool {
			for _, line := range p.log {
				if strings.HasPrefix(line, c.Word(0)) {
					return true
				}
			}
			return false
		})
	}
}

// patience bounds a wait, in the time of the bubble: longer than any backoff.
const patience = time.Hour

// wait blocks until done, under mu, says so. A process that died meanwhile is started again.
func (p *player) wait(what string, done func() bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		p.mu.Lock()
		ok, dead := done(), p.dead
		p.mu.Unlock()
		switch {
		case dead:
			p.reopen()
			continue
		case ok:
			return
		}
		select {
		case <-p.signal:
		case <-timer.C:
			if p.strict {
				p.t.Errorf("%s never came; so far:\n%s", what, strings.Join(p.story(), "\n"))
			}
			return
		}
	}
}

func (p *player) tell(line string) {
	p.mu.Lock()
	p.log = append(p.log, line)
	p.mu.Unlock()
}

func (p *player) nudge() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// sent tells what the model was shown last.
func (p *player) sent() string {
	reqs := p.model.Requests()
	if len(reqs) == 0 {
		return "sent nothing"
	}
	var parts []string
	for _, m := range reqs[len(reqs)-1].Messages {
		part := m.Role
		if m.Reasoning != "" {
			part += fmt.Sprintf(" (%s)", clipped(m.Reasoning))
		}
		if m.Role != "system" && m.Text != "" {
			part += fmt.Sprintf(" %q", clipped(m.Text))
		}
		for range m.Images {
			part += " +image"
		}
		for _, c := range m.Calls {
			part += " call " + c.Name
		}
		parts = append(parts, part)
	}
	return "sent " + strings.Join(parts, " | ")
}

// watched is a story's store: it tells the player of every commit and dies when its fate says so.
type watched struct {
	session.Storage
	p *player
}

func (w watched) Commit(b *session.Batch) error {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.nudge()
	fail := p.fail
	p.fail = ""
	switch {
	case p.dead:
		return errPowerCut
	case fail == "noeffect":
		return session.ErrNoEffect
	case fail == "before", p.fate.before(p, p.commits):
		return p.end()
	}
	if err := w.Storage.Commit(b); err != nil {
		return err
	}
	p.counting = len(b.Entries) == 0 && slices.ContainsFunc(b.Tasks, func(t session.Task) bool { return t.Starts > 0 })
	p.landed(b)
	p.commits++
	if fail == "after" || p.fate.after(p, p.commits-1) {
		return p.end()
	}
	return nil
}

// end is the process's death inside a commit. What a model was saying is lost: it says it again.
func (p *player) end() error {
	p.dead, p.asked = true, false
	return errPowerCut
}

// landed takes a commit into the story.
func (p *player) landed(b *session.Batch) {
	for _, sub := range b.Submissions {
		p.names[sub.ID] = sub.RequestID
	}
	for _, w := range b.Documents {
		if w.Address.Kind == "workflow.live" {
			p.partial = !w.Retire
			p.text(w)
		}
	}
	for _, c := range b.Conversations {
		if c.Parent != nil || c.Owner != 0 {
			p.branches = append(p.branches, c.ID)
		}
	}
	for _, t := range b.Tasks {
		p.task(t)
	}
	for _, e := range b.Entries {
		p.log = append(p.log, p.where(e.Conversation)+p.entryLine(e))
	}
	for _, sub := range b.Submissions {
		if line := p.submissionLine(sub); line != "" {
			p.log = append(p.log, p.where(sub.Conversation)+line)
		}
		p.subs[sub.ID] = sub
	}
}

// text notes which of the texts that the story waits for are committed.
func (p *player) text(w session.DocumentWrite) {
	for _, c := range p.s.Commands {
		if c.Verb == "until" && c.Word(0) == "text" && (bytes.Contains(w.Base, []byte(c.Word(1))) || bytes.Contains(w.Delta, []byte(c.Word(1)))) {
			p.seen["text "+c.Word(1)] = true
		}
	}
}

// task follows generations, to know which response is in turn, and calls that must not be cut.
func (p *player) task(t session.Task) {
	over := t.Status == session.TaskTerminal
	if t.Kind == "workflow.tool" {
		var s struct{ Replay tool.ReplayPolicy }
		p.decode(t.Checkpoint, &s)
		delete(p.fragile, t.ID)
		if !over && t.Phase == "execute" && s.Replay == tool.Never {
			p.fragile[t.ID] = true
		}
		return
	}
	if t.Kind != "workflow.generation" && t.Kind != "workflow.compaction" {
		p.projectTask(t)
		return
	}
	before, known := p.live[t.ID]
	asks := before.Status == session.TaskPending || before.Status == session.TaskWaiting && before.Phase == "request"
	moved := known && asks && (before.Status != t.Status || before.Phase != t.Phase || !bytes.Equal(before.Checkpoint, t.Checkpoint))
	if moved && p.asked {
		p.next, p.asked = p.next+1, false
	}
	if p.live[t.ID] = t; over {
		delete(p.live, t.ID)
	}
	if t.Kind == "workflow.compaction" {
		p.compactionTask(t, known)
		return
	}
	if moved && t.Phase == "retry" && !over {
		var g struct {
			Budget turn.Budget
			WakeAt time.Time
		}
		p.decode(t.Checkpoint, &g)
		p.log = append(p.log, fmt.Sprintf("resend %d/%d after %v", g.Budget.Connection, turn.MaxConnection, time.Until(g.WakeAt)))
	}
}

func (p *player) decode(raw json.RawMessage, v any) {
	if len(raw) == 0 {
		return
	}
	if err := json.Unmarshal(raw, v); err != nil {
		p.t.Errorf("stored %s: %v", raw, err)
	}
}
