package schema

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Violation is one reason why a document does not fit. Pointer is the RFC 6901 JSON Pointer of the value, "" for the
// whole document; for a missing or unknown property it is where that property is or would be.
type Violation struct {
	Pointer string
	Message string
}

// Error lists the violations of one document, in document order of the schema, at most MaxViolations. More is how many
// were left out.
type Error struct {
	Violations []Violation
	More       int
}

// Error has one line per violation: pointer, colon, message. The whole document is called (root).
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Violations)+1)
	for _, v := range e.Violations {
		where := v.Pointer
		if where == "" {
			where = "(root)"
		}
		lines = append(lines, where+": "+v.Message)
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// newError flattens the tree of a validation failure to its leaves.
func newError(failure *jsonschema.ValidationError) *Error {
	e, p := &Error{}, message.NewPrinter(language.English)
	var walk func(*jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		if len(v.Causes) > 0 {
			for _, cause := range v.Causes {
				walk(cause)
			}
			return
		}
		switch k := v.ErrorKind.(type) {
		case *kind.Required:
			for _, name := range k.Missing {
				e.add(pointer(v.InstanceLocation, name), "required, but missing")
			}
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				e.add(pointer(v.InstanceLocation, name), "unknown property")
			}
		default:
			e.add(pointer(v.InstanceLocation), v.ErrorKind.LocalizedString(p))
		}
	}
	walk(failure)
	return e
}

func (e *Error) add(pointer, message string) {
	if len(e.Violations) == MaxViolations {
		e.More++
		return
	}
	e.Violations = append(e.Violations, Violation{Pointer: clip(pointer), Message: clip(message)})
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer joins location and further tokens to a JSON Pointer.
func pointer(location []string, tokens ...string) string {
	var b strings.Builder
	for _, list := range [2][]string{location, tokens} {
		for _, token := range list {
			b.WriteByte('/')
			b.WriteString(escaper.Replace(token))
		}
	}
	return b.String()
}
