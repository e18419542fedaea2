package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// Bounds of what one result tells the model. Source: design "Numbers", tool output to the model.
const (
	MaxResultBytes = 50 << 10
	MaxResultLines = 2000
)

// Bound returns r with each text block inside the bounds, whole lines and valid UTF-8, saying what was left out. Results
// of the built-in tools are inside already and come back as they are.
func Bound(r Result) Result {
	for i, b := range r.Blocks {
		if b.Type != llm.Text {
			continue
		}
		text := strings.ToValidUTF8(b.Text, "\uFFFD")
		if cut := boundText(text); cut != b.Text {
			blocks := append([]llm.Block(nil), r.Blocks...)
			blocks[i].Text = cut
			r.Blocks = blocks
		}
	}
	return r
}

func boundText(s string) string {
	if len(s) <= MaxResultBytes && strings.Count(s, "\n") <= MaxResultLines {
		return s
	}
	kept := s[:min(len(s), MaxResultBytes)]
	lines := 0
	for i := range len(kept) {
		if kept[i] == '\n' {
			if lines++; lines == MaxResultLines {
				kept = kept[:i+1]
				break
			}
		}
	}
	if i := strings.LastIndexByte(kept, '\n'); len(kept) < len(s) && i > 0 {
		kept = kept[:i+1]
	}
	for len(kept) > 0 && len(kept) < len(s) && !utf8.RuneStart(s[len(kept)]) {
		kept = kept[:len(kept)-1]
	}
	return kept + fmt.Sprintf("[%d of %d bytes shown; ask for the rest in smaller parts]", len(kept), len(s))
}
