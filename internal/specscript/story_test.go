package specscript

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const file = "# Why\n# it is so.\nmodel: text \"a\" | text \"b\"\ntools: x\ntools: y\n\nsubmit r1 \"say; this\" mode=steer text=\"a b\" ; until idle\nkill;reopen\n-- want --\nuser r1\n\nanswered\n"

func TestAStoryReadsAsReasonSettingsCommandsAndWhatMustComeOut(t *testing.T) {
	s, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Why != "Why it is so." {
		t.Errorf("why = %q", s.Why)
	}
	if d := cmp.Diff(map[string][]string{"model": {`text "a" | text "b"`}, "tools": {"x", "y"}}, s.Settings); d != "" {
		t.Error(d)
	}
	want := []Command{
		{Verb: "submit", Words: []string{"r1", "say; this"}, Options: map[string]string{"mode": "steer", "text": "a b"}, Text: `submit r1 "say; this" mode=steer text="a b"`, Line: 7},
		{Verb: "until", Words: []string{"idle"}, Options: map[string]string{}, Text: "until idle", Line: 7},
		{Verb: "kill", Options: map[string]string{}, Text: "kill", Line: 8},
		{Verb: "reopen", Options: map[string]string{}, Text: "reopen", Line: 8},
	}
	if d := cmp.Diff(want, s.Commands); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"user r1", "answered"}, s.Want); d != "" {
		t.Error(d)
	}
	if got := s.Format([]string{"user r1", "", "answered"}); got != file {
		t.Errorf("formatted as %q", got)
	}
}

func TestAStoryThatMakesNoSenseIsAnErrorThatSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		"# why\nkill\n":                               "no line",
		"kill\n-- want --\n":                          "no reason",
		"# why\n\n-- want --\n":                       "no commands",
		"# why\nsubmit \"x\n-- want --\n":             "line 2: a string without end",
		"# why\nkill\n; kill\n-- want --\n":           "line 3: a command without a verb",
		"# why\nsubmit r mode=a mode=b\n-- want --\n": "stands twice",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file)
	f.Add("# w\na ; b \"c\" d=`e`\n-- want --\nx\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.Format(s.Want))
		if err != nil {
			t.Fatalf("%q formats as %q: %v", text, s.Format(s.Want), err)
		}
		if d := cmp.Diff(s.Want, again.Want); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(s.Commands, again.Commands); d != "" {
			t.Fatal(d)
		}
	})
}
