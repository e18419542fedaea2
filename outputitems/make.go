package outputitems

import "maps"

// Open returns the chunk that opens the item as it is.
func Open(it Item) Chunk {
	return Chunk{it.ID, OpenChange{
		Status: it.Status, ContentType: it.ContentType, Content: it.Content, Display: it.Display, Expanded: it.Expanded,
		Metadata: it.Metadata.clone(),
	}}
}

// OpenAnswer opens the answer of a host-driven run: markdown, expanded, flat. Source: P-661.
func OpenAnswer(id string) Chunk {
	return markdown(id, StatusRunning, "", true, Metadata{Kind: KindAnswer})
}

// OpenText opens one stretch of a conversation's answer: markdown, expanded. Source: P-665.
func OpenText(id string) Chunk {
	return markdown(id, StatusRunning, "", true, Metadata{Kind: KindPart, PartType: PartText})
}

// OpenReasoning opens a collapsed row of reasoning text.
func OpenReasoning(id string) Chunk {
	return markdown(id, StatusRunning, "", false, Metadata{Kind: KindPart, PartType: PartReasoning})
}

// OpenPart opens a collapsed row of data: a tool call, retry, compaction, plan progress, patch or file. Source: P-662.
func OpenPart(id string, part PartType, content JSON) Chunk {
	return Chunk{id, OpenChange{
		Status: StatusRunning, ContentType: TypeJSON, Content: content, Metadata: Metadata{Kind: KindPart, PartType: part},
	}}
}

// OpenNotice opens a notice that is complete at once. Source: P-663.
func OpenNotice(id, text string) Chunk {
	return markdown(id, StatusCompleted, text, true, Metadata{Kind: KindNotice})
}

// OpenPlan opens a final plan, complete at once: a notice with metadata.plan. Source: P-663, P-673.
func OpenPlan(id, text string) Chunk {
	return markdown(id, StatusCompleted, text, true, Metadata{Kind: KindNotice, Plan: true})
}

// OpenError opens the error row of a failed run. code is the failure's wire name and becomes metadata.code. An *Error says that
// code is not UTF-8. Source: P-664.
func OpenError(id, code, message string) (Chunk, error) {
	name, err := NewJSON(code)
	if err != nil {
		return Chunk{}, err
	}
	return Chunk{id, OpenChange{
		Status: StatusFailed, ContentType: TypeText, Content: Text(message), Expanded: true,
		Metadata: Metadata{Kind: KindError, Extra: map[string]JSON{"code": name}},
	}}, nil
}

// OpenSession opens the auxiliary item that carries session snapshots. Source: P-660.
func OpenSession(id string, snapshot JSON) Chunk {
	return Chunk{id, OpenChange{
		Status: StatusRunning, ContentType: TypeJSON, Content: snapshot, Metadata: Metadata{Kind: KindSession},
	}}
}

// OpenRing opens the context ring of a session. Errors are those of ContextRing.
func OpenRing(sessionKey string, used, total float64) (Chunk, error) {
	it, err := ContextRing(sessionKey, used, total)
	if err != nil {
		return Chunk{}, err
	}
	return Open(it), nil
}

// SetRing moves the context ring of a session. Errors are those of ContextRing.
func SetRing(sessionKey string, used, total float64) (Chunk, error) {
	it, err := ContextRing(sessionKey, used, total)
	if err != nil {
		return Chunk{}, err
	}
	return SetContent(it.ID, it.Content), nil
}

// AppendText adds text at offset, the length in bytes of the text before it.
func AppendText(id string, offset int, text string) Chunk {
	return Chunk{id, AppendChange{Offset: offset, Text: text}}
}

// SetContent replaces an item's text or JSON.
func SetContent(id string, content Content) Chunk { return Chunk{id, SetChange{Content: content}} }

// SetMetadata merges patch, which is copied, into an item's metadata.
func SetMetadata(id string, patch Patch) Chunk {
	return Chunk{id, SetChange{Metadata: maps.Clone(patch)}}
}

// SetStatus moves an item between running and waiting.
func SetStatus(id string, status Status) Chunk { return Chunk{id, SetChange{Status: status}} }

// Done closes an item with a final status.
func Done(id string, status Status) Chunk { return Chunk{id, DoneChange{status}} }

func markdown(id string, status Status, text string, expanded bool, m Metadata) Chunk {
	return Chunk{id, OpenChange{Status: status, ContentType: TypeMarkdown, Content: Text(text), Expanded: expanded, Metadata: m}}
}
