package anthropic

import (
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/agentcore/llm/protocol/protocoltest"
)

var here = llm.Origin{API: API, Provider: "p", Model: "claude-sonnet-4-5"}

func freshDecoder() protocol.Decoder { return newDecoder(here) }

// kindOf names a block as the wire does.
func kindOf(b llm.Block) string {
	switch b.Type {
	case llm.ToolCall:
		return kindTool
	case llm.Text, llm.Thinking, llm.Native, llm.Refusal, llm.Image:
		if kind := protocol.Unquote(protocol.Field(b.Raw, "type")); kind != "" {
			return kind
		}
	}
	return string(b.Type)
}

// TestWireRecordings decodes each stream of index.jsonl in testdata and, where WORKFLOWD_WIRE_DIR is set, in that folder.
func TestWireRecordings(t *testing.T) {
	protocoltest.Recordings(t, protocoltest.Protocol{API: API, New: freshDecoder, Kind: kindOf})
}
