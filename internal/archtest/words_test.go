package archtest

import (
	"bytes"
	"path"
	"regexp"
	"strings"
	"testing"
)

// ban is a pattern that must not occur. The patterns are joined from pieces so that this file passes its own test.
type ban struct {
	what  string // names the rule
	fix   string // what to do
	re    *regexp.Regexp
	files func(name string) bool
}

func goFile(n string) bool    { return path.Ext(n) == ".go" }
func goTest(n string) bool    { return strings.HasSuffix(n, "_test.go") }
func inTests(n string) bool   { return goTest(n) || goFile(n) && forTests(path.Dir(n)) }
func markdown(n string) bool  { return path.Ext(n) == ".md" }
func outsideCI(n string) bool { return n != ".ci/run" }
func notSums(n string) bool   { return path.Ext(n) != ".sum" }
func written(n string) bool {
	return goFile(n) || path.Ext(n) == ".sh" || n == "Makefile" || n == ".ci/run"
}
func alt(parts ...string) string { return strings.Join(parts, "|") }

var bans = []ban{
	{"a path of one machine", "write it relative to the repository, or take it from a flag", regexp.MustCompile(alt("/wor"+"k/[a-z.]", "/far"+"m/", "/roo"+"t/[a-z.]", "bash_"+"jobs")), notSums},
	{"a registry host", "name the package, not the host", regexp.MustCompile(alt(`prox`+`y\.golang\.`, `registr`+`y\.npmjs\.`, `de`+`b\.debian\.`)), notSums},
	{"a word about how the work is organised", "say it from the reader's point of view", regexp.MustCompile(alt("COMP"+"ASS", `DEVELO`+`PERS\.md`, "steering "+"repo", "this "+"box", "served "+"list", "task "+"board")), notSums},
	{"a word of another trade", "say example, preview or row", regexp.MustCompile(`(?i)\b(` + alt("see"+"ds?", "car"+"ds?") + `)\b`), markdown},
	{"a path beside the repository", "only .ci/run may look there", regexp.MustCompile(regexp.QuoteMeta(".." + "/shared")), outsideCI},
	{"unfinished work", "finish it, or leave it out and say so in docs/rough-edges.md", regexp.MustCompile(alt("not (yet )?implemen"+"ted", "unimplemen"+"ted", "TO"+"DO", "FIX"+"ME", `\bXX`+`X\b`, `panic\("to`+`do`, `// *stu`+`b\b`)), written},
	{"a test that does not run", "make it fail with the command that fixes the machine", regexp.MustCompile(`\b([tbf]|tb)\.Ski` + `p(f|Now)?\(`), inTests},
	{"a test that waits for time to pass", "wait for the event, or use testing/synctest", regexp.MustCompile(`time\.Sle` + `ep\(`), inTests},
}

// Words and habits that stay out of every file of the repository.
func TestNoFileHoldsWhatTheHouseForbids(t *testing.T) {
	for _, f := range tree(t).files {
		for _, b := range bans {
			if !b.files(f.name) {
				continue
			}
			for _, at := range b.re.FindAllIndex(f.text, 3) {
				line := 1 + bytes.Count(f.text[:at[0]], []byte("\n"))
				t.Errorf("%s:%d: %q is %s; %s", f.name, line, f.text[at[0]:at[1]], b.what, b.fix)
			}
		}
	}
}

// A pure file decides from its arguments; the clock is one of them.
func TestPureFilesTakeTheTimeAsAnArgument(t *testing.T) {
	clock := regexp.MustCompile(`\btime\.(Now|Since|Until|After|NewTimer|NewTicker)\(`)
	for _, pattern := range pure {
		found := false
		for _, f := range tree(t).files {
			if ok, err := path.Match(pattern, f.name); err != nil {
				t.Fatalf("pure pattern %q: %v", pattern, err)
			} else if !ok || goTest(f.name) {
				continue
			}
			found = true
			if call := clock.Find(f.text); call != nil {
				t.Errorf("%s calls %s...): it is declared pure in table.go; pass the time in", f.name, call)
			}
		}
		if !found && complete {
			t.Errorf("no file matches the pure pattern %q: correct it in table.go", pattern)
		}
	}
}

// Every ban catches what it was written for; a pattern that matches nothing would protect nothing.
func TestEachBanCatchesItsExample(t *testing.T) {
	for what, text := range map[string]string{
		"a path of one machine":                  "/wor" + "k/main",
		"a registry host":                        "prox" + "y.golang.org",
		"a word about how the work is organised": "the task " + "board",
		"a word of another trade":                "the plan car" + "d",
		"a path beside the repository":           ".." + "/shared/x",
		"unfinished work":                        "// TO" + "DO: later",
		"a test that does not run":               "t.Ski" + "p()",
		"a test that waits for time to pass":     "time.Sle" + "ep(1)",
	} {
		caught := false
		for _, b := range bans {
			caught = caught || b.what == what && b.re.MatchString(text)
		}
		if !caught {
			t.Errorf("no ban called %q catches %q", what, text)
		}
	}
}
