package power

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

// The moments of a turn at which something outside the store relies on it, in order.
const (
	asked    = "the model is asked"
	receipt  = "the reader has its first event"
	launched = "the missile is launched"
	resumed  = "the model is asked with the result"
	answered = "the reader has the answer"
)

// turn is one agent's turn with a tool that must never run twice.
type turn struct {
	t    *testing.T
	dir  string // of the session file
	sync session.SyncMode
	disk *disktest.Disk

	mu       sync.Mutex
	launches int
	at       map[string]int // length of the journal at a moment
}

const (
	fileName  = "p/c/main.db"
	requestID = "r1"
)

func (u *turn) note(moment string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.disk != nil {
		if _, again := u.at[moment]; !again {
			u.at[moment] = len(u.disk.Journal())
		}
	}
}

// script calls the tool and answers once it sees a result, whatever the result says.
func (u *turn) script() scripted.Script {
	return scripted.Func(func(req scripted.Request) (scripted.Response, error) {
		for _, m := range req.Messages {
			if m.Role == "tool" {
				u.note(resumed)
				return scripted.Response{scripted.Text{Text: "Told: " + m.Text}}, nil
			}
		}
		u.note(asked)
		return scripted.Response{scripted.Call{Name: "launch", Args: `{"at":"noon"}`}}, nil
	})
}

func (u *turn) launch() tool.Tool {
	type args struct {
		At string `json:"at"`
	}
	return tool.New("launch", "Launches the only missile.", func(context.Context, tool.Call, args) (tool.Result, error) {
		u.note(launched)
		u.mu.Lock()
		u.launches++
		u.mu.Unlock()
		return tool.Text("launched"), nil
	})
}

// run asks for the turn, to its end.
func (u *turn) run(work string) (answer string, err error) {
	a, err := agentcore.New(u.t.Context(), agentcore.Options{DatabasePath: filepath.Join(u.dir, fileName), Workdir: work,
		Sync: u.sync, ExtraTools: []tool.Tool{u.launch()}, Model: "m", LLM: scripted.Provider(u.script())})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, a.Close(), agentcore.Drain()) }()
	for e, err := range a.Run(u.t.Context(), agentcore.Input{RequestID: requestID, Prompt: "launch it at noon"}, nil) {
		if err != nil {
			return answer, err
		}
		u.note(receipt)
		switch e := e.(type) {
		case agentcore.TextDelta:
			answer += e.Text
		case agentcore.TurnEnd:
			u.note(answered)
		}
	}
	return answer, nil
}

func undisturbed(t *testing.T, sync session.SyncMode) *turn {
	t.Helper()
	u := &turn{t: t, dir: t.TempDir(), sync: sync, at: map[string]int{}}
	u.disk = disktest.Watch(t, u.dir)
	answer, err := u.run(t.TempDir())
	if err != nil || answer != "Told: launched" || u.launches != 1 {
		t.Fatalf("%q, %v, %d launches", answer, err, u.launches)
	}
	return u
}

// kept is what a power loss leaves of the session at worst: only what was synced.
type kept struct {
	submission session.SubmissionStatus
	intent     bool // the tool's task is recorded
	result     bool // and so is how it ended
}

func (u *turn) keptAt(moment string) kept {
	u.t.Helper()
	n, ok := u.at[moment]
	if !ok {
		u.t.Fatalf("%s: that never happened", moment)
	}
	dir := u.t.TempDir()
	if err := u.disk.Survive(n, disktest.Nothing, nil, dir); err != nil {
		u.t.Fatal(err)
	}
	store, err := sessionstore.Open(u.t.Context(), filepath.Join(dir, fileName), sessionstore.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	s, err := session.Open(u.t.Context(), store)
	if err != nil {
		u.t.Fatal(err)
	}
	var k kept
	err = s.View(u.t.Context(), func(tx *session.Tx) error {
		sub, err := tx.SubmissionByRequest(session.Root, requestID)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		k.submission = sub.Status
		tasks, err := tx.Tasks(session.TaskQuery{})
		for _, task := range tasks {
			if strings.Contains(string(task.Input), "launch") {
				k.intent, k.result = true, task.Outcome != nil
			}
		}
		return err
	})
	if err := errors.Join(err, s.Close()); err != nil {
		u.t.Fatal(err)
	}
	return k
}

// What somebody outside relies on was synced before: the receipt before the first event, the intent of a call that must
// not run twice before it runs, its result before the model hears of it, the answer before its end is told.
func TestWhatIsReliedOnOutsideIsSyncedBefore(t *testing.T) {
	u := undisturbed(t, session.Auto)
	if got := u.keptAt(receipt); got.submission == "" { // the turn goes on while the reader reads: there may be more
		t.Errorf("when %s a power loss leaves nothing of the submission", receipt)
	}
	for _, want := range []struct {
		moment string
		kept   kept
	}{
		{launched, kept{submission: session.SubmissionPlaced, intent: true}},
		{resumed, kept{submission: session.SubmissionPlaced, intent: true, result: true}},
		{answered, kept{submission: session.SubmissionAnswered, intent: true, result: true}},
	} {
		if got := u.keptAt(want.moment); got != want.kept {
			t.Errorf("when %s a power loss leaves %+v, want %+v", want.moment, got, want.kept)
		}
	}
}

// The other side of the same test: a session that was told to sync nothing keeps nothing.
func TestARelaxedSessionKeepsNothingUntilItIsClosed(t *testing.T) {
	u := undisturbed(t, session.Relaxed)
	for _, moment := range []string{receipt, launched, resumed, answered} {
		if got := u.keptAt(moment); got != (kept{}) {
			t.Errorf("when %s a power loss leaves %+v, want nothing", moment, got)
		}
	}
}

// The disk refuses one write, sync or name, at every moment of a turn: the turn ends well or with an error that has a
// kind; asked for again it ends, and the tool has run once at most.
func TestADiskThatRefusesOnceInATurnLaunchesNothingTwice(t *testing.T) {
	failed := 0
	for n := 0; ; n++ {
		more := false
		refusal := disktest.IOError
		if n%2 == 1 {
			refusal = disktest.Full
		}
		t.Run(fmt.Sprintf("event %d, fault %d", n, refusal), func(t *testing.T) {
			u := &turn{t: t, dir: t.TempDir(), at: map[string]int{}}
			u.disk = disktest.Watch(t, u.dir)
			work := t.TempDir()
			u.disk.Refuse(n, refusal)
			answer, err := u.run(work)
			more = u.disk.Refused()
			u.disk.Refuse(-1, refusal)
			if err == nil && answer != "Told: launched" && !(strings.HasPrefix(answer, "Told: ") && strings.Contains(answer, "may have run")) {
				t.Fatalf("it ended well and told %q", answer)
			}
			if err != nil {
				failed++
				if _, atTheEnd := u.at[answered]; fault.KindOf(err) == "" && !atTheEnd {
					t.Fatalf("an error without a kind: %v", err)
				}
			}
			answer, err = u.run(work)
			if err != nil && fault.KindOf(err) == "" || err == nil && !strings.Contains(answer, "Told: ") || u.launches > 1 {
				t.Fatalf("once more: %q, %v, %d launches", answer, err, u.launches)
			}
		})
		if t.Failed() || !more {
			t.Logf("%d events, %d turns failed", n, failed)
			if failed < 20 {
				t.Error("too few failures to prove anything")
			}
			return
		}
	}
}

// The power fails at every moment of a turn, with every luck for what was not synced: the turn asked for again ends, and
// the tool has run once at most over both lives; an answer that was told is the same one.
func TestAPowerLossInATurnLaunchesNothingTwice(t *testing.T) {
	u := undisturbed(t, session.Auto)
	journal := u.disk.Journal()
	rng := rand.New(rand.NewPCG(5, 6))
	outcomes := map[string]int{}
	for n := range len(journal) + 1 {
		for luck := range disktest.Lucks {
			again := &turn{t: t, dir: t.TempDir()}
			if err := u.disk.Survive(n, luck, rng, again.dir); err != nil {
				t.Fatal(err)
			}
			answer, err := again.run(t.TempDir())
			before := 0
			if n > u.at[launched] {
				before = 1
			}
			switch {
			case fault.KindOf(err) != "":
				t.Fatalf("event %d of %d, luck %d: %v", n, len(journal), luck, err)
			case err != nil:
				t.Fatal(err)
			case before+again.launches > 1:
				t.Fatalf("event %d of %d, luck %d: launched %d times before and %d after: %q", n, len(journal), luck, before, again.launches, answer)
			case !strings.Contains(answer, "Told: "):
				t.Fatalf("event %d of %d, luck %d: answer %q", n, len(journal), luck, answer)
			case n > u.at[answered] && answer != "Told: launched":
				t.Fatalf("event %d of %d, luck %d: the answer was told and is now %q", n, len(journal), luck, answer)
			}
			outcomes[fmt.Sprintf("%d launch before, %d after: %.40s", before, again.launches, answer)]++
		}
	}
	t.Logf("%d events: %v", len(journal), outcomes)
	if len(outcomes) < 3 {
		t.Error("too few outcomes to prove anything")
	}
}
