package agentnode

import (
	"os"
	"time"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/demo"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow"
)

// ModelsVariable names the project's model list: a JSON list, whose first entry is the default.
const ModelsVariable = "WORKFLOWD_AGENT_MODELS"

// maxModelList bounds the list's text, in bytes.
const maxModelList = 1 << 20

// modelEntry is one model of the project's list. The key comes from an environment variable or a file, never from here.
type modelEntry struct {
	ID         string            `json:"id"`
	Provider   string            `json:"provider"`
	APIKind    agentcore.APIKind `json:"apiKind"`
	BaseURL    string            `json:"baseUrl"`
	Model      string            `json:"model"`
	APIKeyEnv  string            `json:"apiKeyEnv"`
	APIKeyFile string            `json:"apiKeyFile"`
	ThirdParty bool              `json:"thirdParty"`
}

// chooseModel completes a's model: an explicit endpoint or provider stays; else the id names an entry of the project's
// list, none meaning the first; without a list and without a model it is the demo model. An id that the list lacks is an
// error that names it, never another model.
func chooseModel(a *agentcore.Options, pace time.Duration) error {
	if a.LLM != nil || a.BaseURL != "" {
		return nil
	}
	list, err := modelList()
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.APIKeyEnv != "" {
			a.HideEnv = append(a.HideEnv, m.APIKeyEnv)
		}
	}
	for _, m := range list {
		if a.Model == "" || a.Model == m.ID {
			return m.apply(a)
		}
	}
	switch {
	case a.Model == demo.Model, a.Model == "" && a.Provider == "":
		a.Model, a.Window, a.LLM = demo.Model, demo.ContextWindow, demo.New(demo.Options{Pace: pace})
	case len(list) > 0 && a.Provider == "":
		return fault.New(fault.InputValidation, "model %q: not in the project's list (%s)", a.Model, ModelsVariable)
	}
	return nil
}

func modelList() ([]modelEntry, error) {
	text := os.Getenv(ModelsVariable)
	if text == "" {
		return nil, nil
	}
	var list []modelEntry
	if err := strictjson.Decode([]byte(text), maxModelList, &list); err != nil {
		return nil, fault.New(fault.InputValidation, "%s: %w", ModelsVariable, err)
	}
	return list, nil
}

func (m modelEntry) apply(a *agentcore.Options) error {
	a.Model, a.Provider, a.APIKind, a.BaseURL = m.Model, m.Provider, m.APIKind, m.BaseURL
	if a.Model == "" {
		a.Model = m.ID
	}
	switch {
	case m.APIKeyFile != "":
		key, err := ReadKeyFile(m.APIKeyFile)
		if err != nil {
			return err
		}
		a.APIKey = key
	case m.APIKeyEnv != "":
		if a.APIKey = os.Getenv(m.APIKeyEnv); a.APIKey == "" {
			return fault.New(fault.InputValidation, "model %q: %s is not set", m.ID, m.APIKeyEnv)
		}
	}
	return nil
}

// WithModel returns a context in which an agent node asks model, whatever its options and the project's list say. The rest
// of its options stays. It serves tests.
func WithModel(ctx workflow.NodeContext, model llm.Provider) workflow.NodeContext {
	return modelContext{ctx, model}
}

type modelContext struct {
	workflow.NodeContext
	model llm.Provider
}

type modelKey struct{}

func (c modelContext) Value(key any) any {
	if key == (modelKey{}) {
		return c.model
	}
	return c.NodeContext.Value(key)
}

// in returns the options for a node that is entered with ctx.
func (o Options) in(ctx workflow.NodeContext) Options {
	if model, given := ctx.Value(modelKey{}).(llm.Provider); given {
		o.LLM = model
	}
	return o
}

// DemoModel is the id of the built-in demo model.
const DemoModel = demo.Model
