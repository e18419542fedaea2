package agentnode

import (
	"time"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/workflow"
)

// Options configure an agent node. The zero value is a working agent named "agent" in the current directory.
type Options struct {
	Name string // "" = agent
	// SessionKey isolates the session within a project and conversation; "" = agent. Two agent nodes of one workflow need
	// different keys.
	SessionKey string
	// DatabasePath overrides the file that (project, conversation, session key) selects.
	DatabasePath string
	// StoreDir holds the session files when the host names no directory; "" = .workflow/agents.
	StoreDir string
	Sync     session.SyncMode

	Workdir            string
	AllowedDirectories []string
	PermissionPolicy   permission.Policy
	Mode               permission.Mode
	Tools              []string
	ExtraTools         []tool.Tool
	// ToolDefinitions say how tools of the host's own are treated: AutoApprove false asks a person, in plan mode.
	ToolDefinitions []workflow.ToolDefinition
	SystemPrompt    string

	Provider  string
	Model     string // "" with no LLM and no project list = the built-in demo model
	BaseURL   string
	APIKey    string
	APIKind   agentcore.APIKind
	Effort    llm.Effort
	MaxTokens int
	Window    int64
	LLM       llm.Provider
	DemoPace  time.Duration // pause between the demo model's words
}

// The defaults of a node's names and places. Source: spec create-agent-node "Options", "The transcript".
const (
	DefaultName     = "agent"
	DefaultKey      = "agent"
	DefaultStoreDir = ".workflow/agents"
	DefaultProject  = "default"
)

func (o Options) name() string {
	if o.Name == "" {
		return DefaultName
	}
	return o.Name
}

func (o Options) key() string {
	if o.SessionKey == "" {
		return DefaultKey
	}
	return o.SessionKey
}

// agent returns the options of the runtime, with the model chosen and the session's file named.
func (o Options) agent(path string) (agentcore.Options, error) {
	a := agentcore.Options{DatabasePath: path, Sync: o.Sync, Workdir: o.Workdir, AllowedDirectories: o.AllowedDirectories,
		PermissionPolicy: o.PermissionPolicy, Mode: o.Mode, Tools: o.Tools, ExtraTools: o.ExtraTools, SystemPrompt: o.SystemPrompt,
		Provider: o.Provider, Model: o.Model, BaseURL: o.BaseURL, APIKey: o.APIKey, APIKind: o.APIKind, Effort: o.Effort,
		MaxTokens: o.MaxTokens, Window: o.Window, LLM: o.LLM}
	return a, chooseModel(&a, o.DemoPace)
}

// ModelInUse returns the model and provider that a turn would ask. Errors are of kind input_validation.
func (o Options) ModelInUse() (model, provider string, err error) {
	a, err := o.agent("")
	if err != nil {
		return "", "", err
	}
	r, err := a.Resolved(agentcore.Input{})
	return r.Model, r.Provider, err
}
