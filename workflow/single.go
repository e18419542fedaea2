package workflow

import (
	"context"
	"slices"

	"github.com/workflowd/workflowd/outputitems"
)

// Result is what one stream node came to.
type Result[Out any] struct {
	Output Out
	Chunks int // delivered by this call
}

// RunStreamNode runs one stream node inside ctx, without an engine: chunks that are output items go to ctx.Output as they
// come, then all chunks are folded, those that ctx's journal already holds first. Package standalone makes a context for
// programs that have none. Errors are those of the node.
func RunStreamNode[In, Chunk, Out any](ctx NodeContext, n StreamNode[In, Chunk, Out], in In) (Result[Out], error) {
	var result Result[Out]
	var chunks []Chunk
	for chunk := range Committed[Chunk](ctx) {
		chunks = append(chunks, chunk)
	}
	for chunk, err := range n.Stream(ctx, in) {
		if err != nil {
			return result, err
		}
		if item, ok := any(chunk).(outputitems.Chunk); ok {
			if err := ctx.Output().Emit(item); err != nil {
				return result, err
			}
		}
		chunks = append(chunks, chunk)
		result.Chunks++
	}
	if err := ctx.Err(); err != nil {
		return result, context.Cause(ctx)
	}
	out, err := n.Finalize(ctx, in, slices.Values(chunks))
	result.Output = out
	return result, err
}
