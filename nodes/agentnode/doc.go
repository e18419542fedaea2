// Package agentnode is an agent as a node of a workflow: agentcore adapted into output items, with plan approval, tool
// approval and usage routed through the node's context.
//
//	agentcore.Event ─▶ projector ─▶ outputitems.Chunk ─▶ run log
//
// The session's file holds what was said, the run's log what was shown; nothing spans both. Items have identities that
// follow from the session (entry, block, call), so after a crash the node tells the turn again from the record and the
// projector passes on only what the log lacks. New live events also carry their source (store, commit, index), which the
// log keeps unique.
package agentnode
