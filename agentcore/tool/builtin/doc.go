// Package builtin holds the tools that every agent has: read, ls, find, grep, write, edit and bash.
//
// They act through env.Environment only. File tools see the files that the scope allows; bash is a process of the host
// and is not confined. read, ls, find and grep have no effects and may run again after a crash; write, edit and bash
// may not.
//
// What a tool gives the model is text without control characters, valid UTF-8, at most MaxOutputBytes and MaxOutputLines
// in whole lines, and it says how to get the rest. An error says what to do next. The words for the model are in the .md
// file beside each tool.
package builtin
