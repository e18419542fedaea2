package agentcore

import (
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
)

// Input is one turn. Zero fields fall back to the options. Source: spec create-agent "Input".
type Input struct {
	Prompt string `json:"prompt" jsonschema:"description=What the agent should do"`
	// RequestID is the logical identity of the turn: repeat it to continue or to hear the result again, never for new
	// input. "" makes a fresh one, without recovery.
	RequestID string       `json:"requestId,omitempty"`
	Images    []ImageInput `json:"images,omitempty"`

	Agent              permission.Mode   `json:"agent,omitempty" jsonschema:"enum=build,enum=plan"`
	PermissionPolicy   permission.Policy `json:"permissionPolicy,omitempty" jsonschema:"enum=read-only,enum=workspace,enum=auto"`
	Workdir            string            `json:"workdir,omitempty"`
	AllowedDirectories []string          `json:"allowedDirectories,omitempty"`
	SystemPrompt       string            `json:"systemPrompt,omitempty"`
	Model              string            `json:"model,omitempty"`
	Effort             *llm.Effort       `json:"effort,omitempty"` // nil = no choice; "" = the model decides
	ContextWindow      int64             `json:"contextWindow,omitempty"`
	MaxTokens          int               `json:"maxTokens,omitempty"`

	// Compact makes the turn a compaction: a summary takes the place of the whole context, and Prompt are instructions for
	// it. A prompt that is exactly /compact or /summarize does the same, without instructions.
	Compact bool `json:"compact,omitempty"`
}

// ImageInput is a picture of a turn. A turn with images and an empty prompt is a turn.
type ImageInput struct {
	Data     []byte `json:"data"` // base64 in JSON
	MimeType string `json:"mimeType"`
}
