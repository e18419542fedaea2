package harness_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/specscript"
	"github.com/workflowd/workflowd/store/sessionstore"
)

var update = flag.Bool("update", false, "rewrite what must come out of the stories; review the difference")

// Every story is played four times over: on the memory store, on it again with the harness opened anew after every commit
// at which nothing is half done, on SQLite, and dying at each commit in turn. The first three must tell the same story, the
// last must keep the invariants.
//
// What the stories prove; the next test keeps this list and the files equal.
// Promise: P-082, P-083, P-084, P-085, P-105, P-108, P-109, P-110, P-111, P-112, P-113, P-114, P-115, P-116, P-117
// Promise: P-118, P-119, P-120, P-121, P-122, P-123, P-127, P-128, P-131, P-133, P-134, P-136, P-137, P-145, P-146, P-147
// Promise: P-148, P-149, P-151, P-152, P-154, P-155, P-335, P-809, P-812, P-816, P-465, P-466, P-467, P-483, P-484, P-485, P-486
// Promise: P-487, P-496, P-551, P-552, P-553, P-554, P-555, P-556, P-559, P-560, P-562, P-563, P-564, P-565, P-566
// Promise: P-569, P-570, P-572, P-574, P-575, P-576, P-579, P-580, P-581, P-584, P-585, P-586, P-587, P-588, P-589
// Promise: P-590, P-591, P-592, P-593, P-595, P-043, P-044, P-045, P-124, P-125, P-126, P-497, P-503, P-504, P-507, P-508
// Promise: P-510, P-511, P-512, P-513, P-514, P-517, P-518, P-522, P-523, P-526, P-529, P-530, P-531, P-532, P-536, P-538
// Promise: P-540
func TestStories(t *testing.T) {
	for name, s := range stories(t) {
		t.Run(name, func(t *testing.T) {
			got, commits := playOnce(t, s, memoryStore(), nobody{})
			if *update {
				if err := os.WriteFile(filepath.Join(storyDir, name+storyExt), []byte(s.Format(got)), 0o644); err != nil {
					t.Fatal(err)
				}
				s.Want = got
			}
			compare(t, "once", s, got)
			got, _ = playOnce(t, s, memoryStore(), everyCommit{})
			compare(t, "opened again after every commit", s, got)
			got, _ = playOnce(t, s, sqliteStore(t), nobody{})
			compare(t, "on SQLite", s, got)
			for n := range commits {
				playOnce(t, s, memoryStore(), &atCommit{n: n, late: false})
				playOnce(t, s, memoryStore(), &atCommit{n: n, late: true})
			}
			if commits < 2 {
				t.Errorf("%d commits: this is no story", commits)
			}
		})
	}
}

const (
	storyDir = "testdata/story"
	storyExt = ".txtar"
)

func stories(t *testing.T) map[string]specscript.Story {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(storyDir, "*"+storyExt))
	if err != nil || len(files) == 0 {
		t.Fatalf("stories: %d files, %v", len(files), err)
	}
	all := map[string]specscript.Story{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := specscript.Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), storyExt)] = s
	}
	return all
}

func compare(t *testing.T, how string, s specscript.Story, got []string) {
	t.Helper()
	if d := cmp.Diff(s.Want, got); d != "" {
		t.Errorf("%s (%s): -want +got\n%s", s.Why, how, d)
	}
}

// playOnce plays s in a bubble of its own, so that waits cost nothing, and checks the invariants at its end.
func playOnce(t *testing.T, s specscript.Story, open opener, fate fate) (story []string, commits int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, s, open, fate)
		p.play()
		story, commits = p.story(), p.commits
	})
	return story, commits
}

// opener opens the store of a story, every time the same one.
type opener func() (session.Storage, error)

func memoryStore() opener {
	m := session.NewMemory()
	return func() (session.Storage, error) { return m.Reopen(), nil }
}

func sqliteStore(t *testing.T) opener {
	path := filepath.Join(t.TempDir(), "s.db")
	return func() (session.Storage, error) {
		return sessionstore.Open(context.Background(), path, sessionstore.Options{})
	}
}

// A promise is proved by a story's file, and named in this one where the count of promises looks.
func TestTheListOfPromisesIsThatOfTheStories(t *testing.T) {
	ids := regexp.MustCompile(`P-\d{3}`)
	source, err := os.ReadFile("story_test.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, line := range strings.Split(string(source), "\n") {
		if list, ok := strings.CutPrefix(line, "// Promise:"); ok {
			for _, id := range ids.FindAllString(list, -1) {
				listed[id] = true
			}
		}
	}
	told := map[string]bool{}
	for _, s := range stories(t) {
		for _, id := range ids.FindAllString(s.Why, -1) {
			told[id] = true
		}
	}
	if d := cmp.Diff(told, listed); d != "" {
		t.Errorf("-stories +list\n%s", d)
	}
	if len(told) == 0 {
		t.Error(fmt.Errorf("no story names a promise"))
	}
}
