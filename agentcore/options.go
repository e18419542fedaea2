package agentcore

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// Options configure an Agent. Model or LLM is required; everything else has a working zero value.
type Options struct {
	// DatabasePath is the SQLite file of one session, made when it is missing. "" keeps the session in memory: without
	// recovery after the process ends. Only one owner at a time may have it open.
	DatabasePath string
	Storage      StorageFactory   // a place of the host's own instead; both is an error
	SessionID    string           // the session's name, for good; "" = the one it has, or the identity of its store
	Sync         session.SyncMode // which commits wait for the disk; zero = those that something outside relies on

	Workdir            string // tools resolve relative paths against it; "" = the current directory
	AllowedDirectories []string
	PermissionPolicy   permission.Policy
	Mode               permission.Mode // of inputs that name none
	Tools              []string        // narrows the built-in tools; nil = all the policy allows. Never widens
	ExtraTools         []tool.Tool     // the host's own, beside the built-in ones; not governed by the policy
	SystemPrompt       string          // replaces the persona; the communication guide stays

	Provider  string // "" = the one of APIKind
	Model     string
	BaseURL   string  // "" = the provider's own endpoint
	APIKey    string  // "" = the provider's usual environment variable, for its own endpoint
	APIKind   APIKind // "" = the protocol of Provider
	Effort    llm.Effort
	MaxTokens int   // output limit per response; 0 = the provider's
	Window    int64 // tokens the model can hold; 0 = DefaultWindow

	// HideEnv names environment variables that commands of the bash tool must not see, beside the providers' usual keys.
	HideEnv []string

	// Session turns the session protocol on: commands while a turn runs, and what a project adds. Nil is off.
	Session *SessionOptions

	// LLM replaces Provider, BaseURL, APIKey and APIKind with a provider of the caller's.
	LLM llm.Provider
}

// DefaultWindow is assumed of a model that nobody described, in tokens.
const DefaultWindow = 128_000

// environs is the environment made last: thousands of agents share one copy, which nobody changes.
var environs atomic.Pointer[[]string]

// environ is what commands of the bash tool inherit: everything but keys of models.
func (o Options) environ() []string {
	keys := keyVariables()
	list := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(o.HideEnv, name) || slices.Contains(keys, name)
	})
	if last := environs.Load(); last != nil && slices.Equal(*last, list) {
		return *last
	}
	environs.Store(&list)
	return list
}

// settings are what a turn runs with, as stored with its submission. They hold no credentials.
type settings struct {
	Mode         permission.Mode   `json:"mode"`
	Policy       permission.Policy `json:"policy"`
	Workdir      string            `json:"workdir"`
	Allowed      []string          `json:"allowed,omitempty"`
	SystemPrompt string            `json:"systemPrompt,omitempty"`
	Model        string            `json:"model"`
	Effort       llm.Effort        `json:"effort,omitempty"`
	MaxTokens    int               `json:"maxTokens,omitempty"`
	Window       int64             `json:"window"`
}

// Resolved is what a turn would run with.
type Resolved struct {
	Workdir  string
	Provider string
	Model    string
	Effort   llm.Effort
	Mode     permission.Mode
}

// Resolved returns what a turn with this input would run with. Errors are of kind input_validation.
func (o Options) Resolved(in Input) (Resolved, error) {
	s, err := o.settingsOf(in)
	if err != nil {
		return Resolved{}, err
	}
	p, err := o.provider()
	if err != nil {
		return Resolved{}, err
	}
	return Resolved{s.Workdir, p.Origin(s.Model).Provider, s.Model, s.Effort, s.Mode}, nil
}

// settingsOf merges an input over the options.
func (o Options) settingsOf(in Input) (settings, error) {
	s := settings{Mode: o.Mode, Policy: o.PermissionPolicy, Workdir: o.Workdir, Allowed: o.AllowedDirectories, SystemPrompt: o.SystemPrompt,
		Model: o.Model, Effort: o.Effort, MaxTokens: o.MaxTokens, Window: o.Window}
	override(&s.Mode, in.Agent)
	override(&s.Policy, in.PermissionPolicy)
	override(&s.Workdir, in.Workdir)
	override(&s.SystemPrompt, in.SystemPrompt)
	override(&s.Model, in.Model)
	override(&s.MaxTokens, in.MaxTokens)
	override(&s.Window, in.ContextWindow)
	if in.AllowedDirectories != nil {
		s.Allowed = in.AllowedDirectories
	}
	if in.Effort != nil {
		s.Effort = *in.Effort
	}
	if s.Window == 0 {
		s.Window = DefaultWindow
	}
	var err error
	if s.Mode, err = permission.ParseMode(string(s.Mode)); err != nil {
		return s, err
	}
	if s.Policy, err = permission.ParsePolicy(string(s.Policy)); err != nil {
		return s, err
	}
	if s.Effort, err = llm.ParseEffort(string(s.Effort)); err != nil {
		return s, fault.New(fault.InputValidation, "%w", err)
	}
	if s.Workdir, err = filepath.Abs(s.Workdir); err != nil {
		return s, fault.New(fault.InputValidation, "workdir %q: %w", s.Workdir, err)
	}
	return s, nil
}

// override sets *v to with unless with is zero.
func override[T comparable](v *T, with T) {
	var zero T
	if with != zero {
		*v = with
	}
}
