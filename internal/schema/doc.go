// Package schema derives JSON Schemas from Go types and checks JSON documents against schemas, ours and foreign ones.
//
// Reflect is for types of ours: one closed tree, no references, the same bytes each time. Compile takes any schema of
// draft 4 to 2020-12 that needs nothing from outside: no file and no address is ever opened on behalf of a schema, and a
// regular expression that Go cannot run accepts everything and is reported by Warnings. Errors list every violation with
// the JSON Pointer of the value it is about.
package schema
