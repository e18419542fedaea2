package demo

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/prompt"
)

// revision is a declined plan that came back.
type revision struct{ instructions, goal string }

// The titles of plans; a revision finds its goal behind them.
const (
	planTitle    = "# Plan: "
	revisedTitle = "# Revised plan: "
)

// revisionLead, revisionMark and planMark are the fixed words of the prompt that sends a plan back.
var revisionLead, revisionMark, planMark = revisionMarks()

func revisionMarks() (lead, mark, plan string) {
	const slot = "\x00"
	text := prompt.RevisePlan(0, slot, slot)
	head, rest, _ := strings.Cut(text, slot)
	between, _, _ := strings.Cut(rest, slot)
	lead, _, _ = strings.Cut(head, "0")
	between, _, _ = strings.Cut(between, "0")
	if i := strings.LastIndex(strings.TrimRight(head, "\n"), "\n"); i >= 0 {
		head = head[i:]
	}
	return lead, head, between
}

// revision reads a request that sends a plan back, ok false for any other.
func (t turn) revision() (r revision, ok bool) {
	if !strings.HasPrefix(t.request, revisionLead) {
		return r, false
	}
	_, rest, ok := strings.Cut(t.request, revisionMark)
	if !ok {
		return r, false
	}
	r.instructions, rest, ok = strings.Cut(rest, planMark)
	if !ok {
		return r, false
	}
	for line := range strings.Lines(rest) {
		for _, title := range []string{planTitle, revisedTitle} {
			if goal, ok := strings.CutPrefix(strings.TrimSpace(line), title); ok && r.goal == "" {
				r.goal = goal
			}
		}
	}
	return r, true
}

// goal is what the user wants: the request, or the goal of the plan that came back.
func (t turn) goal() string {
	if r, ok := t.revision(); ok {
		return r.goal
	}
	return t.request
}

// instructions are those of a revision, "" otherwise.
func (t turn) instructions() string {
	r, _ := t.revision()
	return strings.TrimSpace(r.instructions)
}

// plan writes the plan: title, steps, risk; then what it rests on; then the signature.
func plan(t turn, f facts) string {
	var b strings.Builder
	goal := clip(t.goal())
	if goal == "" {
		goal = "look at this workspace and say what to do next"
	}
	if r, ok := t.revision(); ok {
		fmt.Fprintf(&b, "%s%s\n\n**Changed on your instructions:** %s\n\n", revisedTitle, goal, quote(r.instructions))
	} else {
		b.WriteString(planTitle + goal + "\n\n")
	}
	for i, step := range steps(t, f) {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	fmt.Fprintf(&b, "\n**Risk:** %s\n\n## What this rests on\n\n", risk(f))
	for _, e := range evidence(f) {
		b.WriteString("- " + e + "\n")
	}
	b.WriteString("\n**Next:** check step 1 against " + startingPoint(f) + ", then approve the plan or send it back with instructions.\n\n" + signature)
	return b.String()
}

// steps are the steps of the plan, three to eight, each with its check.
func steps(t turn, f facts) []string {
	var out []string
	if ins := t.instructions(); ins != "" {
		out = append(out, stop("Begin with what you asked for: "+quote(ins))+" *Check:* each point of it is answered by a step or a file below.")
	}
	r, read := f.main()
	switch {
	case read && r.heading != "":
		out = append(out, fmt.Sprintf("Start from %s (%s, headed %s). *Check:* the change contradicts nothing in it.", code(r.file), lineCount(r), quote(r.heading)))
	case len(f.names()) == 0:
		out = append(out, "Create the first file: "+looked(f)+". *Check:* `ls` shows it.")
	default:
		out = append(out, "Start from "+startingPoint(f)+". *Check:* it can be read.")
	}
	if m := f.matches; len(m) > 0 {
		out = append(out, fmt.Sprintf("Look at %s of %s in %s, first at %s. *Check:* the same search finds them afterwards.",
			matches(len(m)), code(f.pattern), files(len(f.hits())), code(place(m[0]))))
	}
	deeds := verbs(t.goal())
	for _, d := range deeds[:min(len(deeds), stepsShown)] {
		out = append(out, "Then "+d.String()+". *Check:* its result says that it worked.")
	}
	if more := len(deeds) - stepsShown; more > 0 {
		out[len(out)-1] += fmt.Sprintf(" The %s that follow come after it.", count(more, "request", "requests"))
	}
	if len(deeds) == 0 {
		out = append(out, "Make the smallest change in "+target(f)+". *Check:* the difference shows that file and no other.")
	}
	return append(out,
		"Test the whole with "+check(f)+". *Check:* it ends without an error.",
		"Note the change in "+notes(f)+". *Check:* a reader finds it without asking.")
}

// target names the file to change: where most matches are, else what was read, else the first known name.
func target(f facts) string {
	if hits := f.hits(); len(hits) > 0 {
		return code(hits[0])
	}
	return startingPoint(f)
}

func startingPoint(f facts) string {
	if r, ok := f.main(); ok {
		return code(r.file)
	}
	if names := f.names(); len(names) > 0 {
		return code(names[0])
	}
	return "the working directory"
}

// checks are files of a directory and the command that checks such a project.
var checks = []struct{ file, command string }{
	{"Makefile", "make test"},
	{"go.mod", "go test ./..."},
	{"Cargo.toml", "cargo test"},
	{"package.json", "npm test"},
	{"pyproject.toml", "pytest"},
	{"pom.xml", "mvn test"},
}

func check(f facts) string {
	for _, c := range checks {
		if slices.Contains(f.listing.files, c.file) {
			return code(c.command) + " (there is a " + code(c.file) + ")"
		}
	}
	return "a reading of the changed files, because the listing shows no build file"
}

func notes(f facts) string {
	for _, name := range f.listing.files {
		if strings.HasPrefix(strings.ToUpper(path.Base(name)), "CHANGELOG") {
			return code(name)
		}
	}
	if name := f.readme(); name != "" {
		return code(name)
	}
	return "a new `README.md`"
}

func risk(f facts) string {
	switch {
	case f.listing.said != "":
		return "the listing gave no files (" + quote(f.listing.said) + "), so the steps rest on little."
	case len(f.found) > 0 && len(f.found) <= len(f.reads):
		return "what the search leaves out, for example ignored files, may also need the change."
	case len(f.found) > 0:
		return fmt.Sprintf("only %s of %s were read, so a place that also needs the change may be missing.", count(len(f.reads), "file", "files"), atLeast(len(f.found), f.more))
	}
	return "little was found, so the steps may miss a place that needs the change."
}

func atLeast(n int, more bool) string {
	if more || n >= findLimit {
		return fmt.Sprintf("at least %d", n)
	}
	return fmt.Sprint(n)
}

func place(m match) string { return fmt.Sprintf("%s:%d", m.file, m.line) }

func lineCount(r reading) string {
	s := count(r.lines, "line", "lines")
	if r.partial {
		s = "the first " + s
	}
	return s
}

// looked says what ls showed.
func looked(f facts) string {
	l := f.listing
	switch {
	case !l.asked:
		return "no listing was made"
	case l.said != "":
		return "`ls` answered " + quote(l.said)
	}
	s := fmt.Sprintf("`ls` showed %s and %s", files(len(l.files)), count(len(l.folders), "folder", "folders"))
	var names []string
	names = append(append(names, l.files...), l.folders...)
	if len(names) > 0 {
		s += ": " + some(names)
	}
	return s
}

// evidence says in one line each what the results showed.
func evidence(f facts) []string {
	out := []string{stop(upper(looked(f)))}
	switch {
	case f.glob == "":
	case len(f.found) > 0:
		out = append(out, fmt.Sprintf("`find` gave %s files for %s, first %s.", atLeast(len(f.found), f.more), code(f.glob), code(f.found[0])))
	default:
		out = append(out, stop("`find` for "+code(f.glob)+" answered "+quote(f.findSaid)))
	}
	switch {
	case f.pattern == "":
	case len(f.matches) > 0:
		m := f.matches[0]
		out = append(out, stop(fmt.Sprintf("`grep` gave %s for %s in %s, first %s: %s",
			matches(len(f.matches)), code(f.pattern), files(len(f.hits())), code(place(m)), code(m.text))))
	default:
		out = append(out, stop("`grep` for "+code(f.pattern)+" answered "+quote(f.grepSaid)))
	}
	for _, r := range f.reads {
		switch {
		case r.said != "":
			out = append(out, stop("`read` of "+code(r.file)+" answered "+quote(r.said)))
		case r.heading == "":
			out = append(out, fmt.Sprintf("%s has %s without words.", code(r.file), lineCount(r)))
		case r.sentence == "":
			out = append(out, fmt.Sprintf("%s begins with %s (%s).", code(r.file), quote(r.heading), lineCount(r)))
		default:
			out = append(out, stop(fmt.Sprintf("%s begins with %s (%s) and says: %s", code(r.file), quote(r.heading), lineCount(r), quote(r.sentence))))
		}
	}
	return out
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// thought is the reasoning that a request with an effort gets.
func thought(t turn, f facts) string {
	return "(The demo model reasons by a fixed rule.) The request: " + quote(t.goal()) + ". What I know: " + strings.Join(evidence(f), " ") +
		" Everything in the answer comes from these results."
}
