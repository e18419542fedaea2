package openairesponses

import (
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/agentcore/llm/protocol/protocoltest"
)

var here = llm.Origin{API: API, Provider: "p", Model: "gpt-5"}

func freshDecoder() protocol.Decoder { return newDecoder(here) }

// kindOf names a block as the wire names its item.
func kindOf(b llm.Block) string {
	switch b.Type {
	case llm.Text, llm.Refusal:
		return itemMessage
	case llm.Thinking:
		return itemReasoning
	case llm.ToolCall:
		if kind := protocol.Unquote(protocol.Field(b.Raw, "type")); kind != "" {
			return kind
		}
		return itemCall
	case llm.Native, llm.Image:
	}
	return b.Name
}

// TestWireRecordings decodes each stream of index.jsonl in testdata and, where WORKFLOWD_WIRE_DIR is set, in that folder.
func TestWireRecordings(t *testing.T) {
	protocoltest.Recordings(t, protocoltest.Protocol{API: API, New: freshDecoder, Kind: kindOf})
}
