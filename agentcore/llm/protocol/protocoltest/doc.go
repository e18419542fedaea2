// Package protocoltest proves that a decoder reads streams rightly.
//
// Recordings decodes every stream of an index: those of our own below testdata, and those in the folder that
// WORKFLOWD_WIRE_DIR names. Each is fed whole, byte by byte, cut in two at many places, and with every kind of line end;
// the outcome must be the same each time, keep the rules of llm.StreamEvent, and be the one that the index expects.
package protocoltest
