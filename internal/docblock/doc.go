// Package docblock keeps parts of a document equal to what code says. A part stands between two comment lines
//
//	<!-- name -->
//	<!-- /name -->
//
// and a test compares it with its rendering, or writes it.
package docblock
