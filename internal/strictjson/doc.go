// Package strictjson is the door through which JSON comes in: what it lets pass means exactly one thing.
//
// Decode refuses what encoding/json forgives: unknown and repeated members, names in another case, null where the type has
// no nil, text that is not UTF-8 or holds half a surrogate pair, numbers beyond a float64, deep nesting and excess size. Every
// refusal is an *Error with an RFC 6901 pointer. Canonical gives equal values equal bytes, so that a repeated command can
// be told from a changed one. Repair mends what may not be refused. All functions are safe for concurrent use and never
// keep or change their arguments.
//
// Source: design rule 9, P-153, P-156.
package strictjson
