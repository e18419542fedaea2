// Command 01-hello-agent asks an agent about the files of the current directory, with the built-in model: no key needed.
package main

import (
	"fmt"

	"github.com/workflowd/workflowd"
)

func main() {
	answer, err := workflowd.Prompt("What is in this folder?", workflowd.AgentOptions{PermissionPolicy: workflowd.ReadOnly})
	if err != nil {
		panic(err)
	}
	fmt.Println(answer)
}
