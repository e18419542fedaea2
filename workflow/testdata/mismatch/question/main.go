// Command question must not compile: an option of a question is given to a node.
package main

import (
	"time"

	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

var shout = workflow.Func("shout",
	func(_ workflow.NodeContext, s string) (string, error) { return s + "!", nil },
	userinput.Expires(time.Hour), // fault
)

func main() { _ = shout }
