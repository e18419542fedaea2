// Package compaction decides when and how a long context is replaced by a summary: thresholds, the cut, the transcript as
// text, and the calls that turn it into one summary. It is pure: who calls it sends the requests and stores what came.
//
//	messages ─Cut─▶ older | kept
//	older ─Render, Chunks─▶ texts that fit ─one call each─▶ summaries ─Work groups them, one call each─▶ one summary
package compaction
