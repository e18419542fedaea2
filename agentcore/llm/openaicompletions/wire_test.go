package openaicompletions

import (
	"io"
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/agentcore/llm/protocol/protocoltest"
)

func freshDecoder() protocol.Decoder {
	return newDecoder(llm.Origin{API: API, Provider: "p", Model: "m"})
}

func run(t *testing.T, src io.Reader) protocoltest.Outcome {
	t.Helper()
	return protocoltest.Run(t, freshDecoder(), src)
}

// TestWireRecordings decodes each stream of index.jsonl in testdata and, where WORKFLOWD_WIRE_DIR is set, in that folder.
// Promise: P-078
func TestWireRecordings(t *testing.T) {
	protocoltest.Recordings(t, protocoltest.Protocol{API: API, New: freshDecoder, FirstOnly: true, Kind: func(b llm.Block) string {
		return map[llm.BlockType]string{llm.Text: "text", llm.Thinking: "reasoning", llm.ToolCall: "tool_call", llm.Refusal: "refusal"}[b.Type]
	}})
}
