package demo

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// act is the next response of the demo model, whole: words, then calls. No calls make it the final answer.
type act struct {
	thinking string
	text     string
	calls    []call
	plan     bool // the text is a plan
}

// story decides the next response from what happened in the turn.
func story(t turn) act {
	if len(t.tools) == 0 && len(t.done) == 0 {
		return act{text: noTools(t)}
	}
	if t.tools.has("ls") && len(t.called("ls")) == 0 {
		return act{
			text:  "I list the working directory first.",
			calls: []call{t.tools.call("ls", want{names: pathNames, value: "."})},
		}
	}
	f := factsOf(t)
	if len(t.called("find", "grep")) == 0 {
		if calls, words := search(t, f); len(calls) > 0 {
			return act{text: words, calls: calls}
		}
	}
	if t.tools.has("read") && len(t.called("read")) == 0 {
		if files := interesting(t, f); len(files) > 0 {
			a := act{text: "Now I read " + join(codes(files)) + "."}
			for _, file := range files {
				a.calls = append(a.calls, t.tools.call("read", want{names: pathNames, value: file},
					want{names: []string{"limit", "maxLines", "lines"}, value: readLines, optional: true}))
			}
			return a
		}
	}
	if d, ok := t.nextDeed(); ok {
		return act{text: "You asked me to " + d.String() + ".", calls: []call{d.call(t.tools)}}
	}
	if t.tools.has(submitTool) && len(t.called(submitTool)) == 0 {
		return act{
			text:  "I hand in what I found in the shape that was asked for.",
			calls: []call{{submitTool, typedAnswer(t.tools[submitTool].raw, t, f)}},
		}
	}
	if t.plan {
		return act{text: plan(t, f), thinking: thought(t, f), plan: true}
	}
	return act{text: report(t, f), thinking: thought(t, f)}
}

// deeds returns what the prompt asks to be done and a tool is offered for, and what must be left.
func (t turn) deeds() (can, cannot []deed) {
	for _, d := range verbs(t.request) {
		if !t.plan && t.tools.has(d.tool()) {
			can = append(can, d)
		} else {
			cannot = append(cannot, d)
		}
	}
	return can, cannot
}

// nextDeed returns the first deed that was not called yet.
func (t turn) nextDeed() (deed, bool) {
	can, _ := t.deeds()
	if n := len(t.called("write", "bash")); n < len(can) {
		return can[n], true
	}
	return deed{}, false
}

// interest is what to look for in a directory with certain files: a pattern for grep and one for find.
type interest struct{ ext, grep, glob string }

var interests = []interest{
	{".go", "func main", "**/*.go"},
	{".mod", "func main", "**/*.go"},
	{".py", "def ", "**/*.py"},
	{".rs", "fn main", "**/*.rs"},
	{".ts", "export ", "**/*.ts"},
	{".js", "export ", "**/*.js"},
	{".java", "class ", "**/*.java"},
	{".md", "^# ", "**/*.md"},
}

// interestOf picks what fits the listing.
func interestOf(l listing) interest {
	for _, i := range interests {
		if slices.ContainsFunc(l.files, func(name string) bool { return strings.HasSuffix(strings.ToLower(name), i.ext) }) {
			return i
		}
	}
	if slices.Contains(l.files, "package.json") {
		return interest{".js", "export ", "**/*.js"}
	}
	return interest{"", "title|name", "**/*"}
}

// search returns the calls that fit what ls showed, or the words of the prompt, and the words that announce them.
func search(t turn, f facts) ([]call, string) {
	if f.listing.asked && f.listing.said == "" && len(f.listing.files)+len(f.listing.folders) == 0 || strings.Contains(f.listing.said, "empty") {
		return nil, ""
	}
	fit := interestOf(f.listing)
	pattern := fit.grep
	if words := searchable(t.question()); len(words) > 0 {
		pattern = strings.Join(words, "|")
	}
	var calls []call
	var words []string
	if t.tools.has("find") {
		calls = append(calls, t.tools.call("find", want{names: []string{"pattern", "glob", "query"}, value: fit.glob},
			want{names: pathNames, value: ".", optional: true},
			want{names: []string{"limit", "maxResults"}, value: findLimit, optional: true}))
		words = append(words, "the files that match "+code(fit.glob))
	}
	if t.tools.has("grep") {
		calls = append(calls, t.tools.call("grep", want{names: []string{"pattern", "regex", "query"}, value: pattern},
			want{names: pathNames, value: ".", optional: true},
			want{names: []string{"ignoreCase", "caseInsensitive", "ignore_case"}, value: true, optional: true},
			want{names: []string{"limit", "maxMatches"}, value: grepLimit, optional: true}))
		words = append(words, "the lines that match "+code(pattern))
	}
	return calls, "I look for " + join(words) + "."
}

// question is the text whose words are searched for: the instructions of a revision, and in build mode a prompt that asks
// for nothing to be done. "" = look for what fits the directory.
func (t turn) question() string {
	if ins := t.instructions(); ins != "" || t.plan || len(verbs(t.request)) > 0 {
		return ins
	}
	return t.request
}

var (
	wordPattern = regexp.MustCompile(`[\p{L}\p{N}_]+`)
	fillers     = strings.Fields("about after again also been before change could does done each file files find folder from give have help here into just like line lines " +
		"list look made make more most much need only over plan please project read repository says should show some tell than that their them then there these they this " +
		"those through used using very want what when where which will with without work workspace would write your explain describe summarise summarize")
)

// searchable returns the words of a prompt that are worth a search, at most searchWords.
func searchable(prompt string) []string {
	var out []string
	for _, w := range wordPattern.FindAllString(prompt, -1) {
		runes := []rune(w)
		lower := strings.ToLower(w)
		if len(runes) < minWordRunes && len(w) == len(runes) || len(runes) > maxWordRunes || slices.Contains(fillers, lower) ||
			slices.ContainsFunc(out, func(have string) bool { return strings.EqualFold(have, w) }) {
			continue
		}
		if out = append(out, w); len(out) == searchWords {
			break
		}
	}
	return out
}

var pathPattern = regexp.MustCompile(`[\p{L}\p{N}_.\-/]+`)

// interesting returns at most two files to read, all of them seen in results: one that the prompt names, the best match
// when the prompt is a question, the README, the first text file.
func interesting(t turn, f facts) []string {
	var out []string
	seen := f.names()
	add := func(name string) {
		if name != "" && len(out) < 2 && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, token := range pathPattern.FindAllString(t.goal()+" "+t.instructions(), -1) {
		if token = strings.TrimPrefix(strings.TrimRight(token, ".-"), "./"); slices.Contains(seen, token) {
			add(token)
		}
	}
	hits := slices.DeleteFunc(f.hits(), func(name string) bool { return !textual(name) })
	if len(searchable(t.question())) > 0 && len(hits) > 0 {
		add(hits[0])
	}
	add(f.readme())
	if len(hits) > 0 {
		add(hits[0])
	}
	for _, name := range seen {
		if len(out) == 0 && textual(name) && path.Base(name) != ".gitignore" {
			add(name)
		}
	}
	return out
}
