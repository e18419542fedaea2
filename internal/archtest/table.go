package archtest

// Module is the import path of the product.
const Module = "github.com/workflowd/workflowd"

// complete says that every row of Levels must exist as a package. Off, a row may stand for a package that is still
// being built; a package without a row is an error either way.
const complete = false

// Limits of the house. Source: CONTRIBUTING.md "Sizes".
const (
	maxFileLines    = 500 // lines of one Go file that is not a test
	maxPackageFiles = 15  // Go files of one package that are not tests
)

// Levels lists every package by level, lowest first. A package may import packages of lower levels only. A path that
// ends in "/..." stands for every package below it. The root package is ".".
var Levels = [][]string{
	0: {
		"agentcore/fault",
		"internal/archtest", "internal/disk", "internal/docblock", "internal/faultpoint", "internal/ids", "internal/sse",
		"internal/specscript", "internal/strictjson", "tools/promises",
	},
	1: {"agentcore/env", "agentcore/prompt", "outputitems", "workflow/userinput"},
	2: {
		"agentcore/env/envtest", "agentcore/env/local", "agentcore/llm", "agentcore/session",
		"internal/schema", "workflow/graph",
	},
	3: {
		"agentcore/control", "agentcore/llm/protocol", "agentcore/permission",
		"agentcore/session/sessiontest", "agentcore/tokens", "agentcore/tool", "store/sqlite",
		"store/sqlite/disktest", "workflow",
	},
	4: {
		"agentcore/compaction", "agentcore/llm/anthropic", "agentcore/llm/openaicompletions", "agentcore/llm/openairesponses",
		"agentcore/llm/protocol/protocoltest", "agentcore/task", "agentcore/tool/builtin",
		"executor/internal/...", "executor/runlog", "store/sessionstore", "workflow/standalone",
	},
	5: {
		"agentcore/llm/scripted", "agentcore/registry", "agentcore/harness/turn",
		"executor/executortest", "executor/internal/schedule", "nodes/io", "store/runstore",
	},
	6:  {"agentcore/harness", "agentcore/llm/demo", "agentcore/llm/llmtest", "executor/reader"},
	7:  {"agentcore", "executor"},
	8:  {"nodes/agentnode"},
	9:  {".", "workflowtest"},
	10: {"daemon"},
	11: {"daemon/stock"},
	12: {
		"bench/driver", "cmd/workflowd", "examples/...", "test/...",
	},
}

// apart names pairs that must stay strangers whatever their levels: packages at or below the first may not reach the
// second, directly or through others. Source: docs/architecture.md "Who imports whom".
var apart = [][2]string{
	{"agentcore", "workflow"},
	{"agentcore", "executor"},
	{"agentcore", "nodes"},
	{"agentcore", "daemon"},
	{"workflow", "executor"},
	{"executor", "agentcore/harness"},
	{"agentcore/session", "agentcore/llm"},
}

// pure names files that decide and never act: they take the time as an argument. A pattern that matches no file is an
// error once complete is set.
var pure = []string{
	"agentcore/harness/context.go",
	"agentcore/harness/decide.go",
	"agentcore/task/next.go",
	"agentcore/task/state.go",
	"executor/internal/schedule/*.go",
	"executor/runlog/state.go",
	"outputitems/*.go",
}
