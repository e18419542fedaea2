// Command workflowd runs workflows: the built-in ones here, a project's own in a binary made the same way.
package main

import (
	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/daemon/stock"
)

func main() { daemon.Main(stock.Parts()...) }
