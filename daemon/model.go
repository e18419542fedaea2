package daemon

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/nodes/agentnode"
)

// modelFlags choose the model and what the agent may do.
type modelFlags struct {
	model, provider, baseURL, apiKind, keyFile, effort, policy, workdir string
	plan                                                                bool
}

func (m *modelFlags) add(f *pflag.FlagSet) {
	f.StringVar(&m.model, "model", "", "model id; none = the project's list, else the built-in demo model")
	f.StringVar(&m.provider, "provider", "", `provider; of a known one ("openai", "anthropic") the usual environment variable holds the key`)
	f.StringVar(&m.baseURL, "base-url", "", "address of a model endpoint, up to /v1")
	f.StringVar(&m.apiKind, "api-kind", "", "protocol: openai-completions, openai-responses or anthropic-messages; none = the provider's")
	f.StringVar(&m.keyFile, "api-key-file", "", "file that holds the API key")
	f.StringVar(&m.effort, "effort", "", "reasoning effort: off, minimal, low, medium, high, xhigh, max")
	f.StringVar(&m.policy, "permission-policy", "", "read-only, workspace or auto")
	f.BoolVar(&m.plan, "plan", false, "plan mode: research and propose only")
	f.StringVar(&m.workdir, "workdir", "", "directory the tools work in; none = the current one")
}

// options turns the flags into the agent's options. Errors name the flag.
func (m *modelFlags) options() (agentnode.Options, error) {
	o := agentnode.Options{Model: m.model, Provider: m.provider, BaseURL: m.baseURL, APIKind: agentcore.APIKind(m.apiKind), Workdir: m.workdir}
	var err error
	if o.PermissionPolicy, err = permission.ParsePolicy(m.policy); err != nil {
		return o, usage("--permission-policy: %w", err)
	}
	if o.Effort, err = llm.ParseEffort(m.effort); err != nil {
		return o, usage("--effort: %w", err)
	}
	if m.plan {
		o.Mode = permission.Plan
	}
	if m.baseURL != "" && m.model == "" {
		return o, usage("--base-url: needs --model, the model to ask that endpoint for")
	}
	if m.keyFile != "" {
		if o.APIKey, err = agentnode.ReadKeyFile(m.keyFile); err != nil {
			return o, usage("--api-key-file: %w", err)
		}
	} else if m.baseURL != "" {
		o.APIKey = os.Getenv(agentcore.KeyVariable(o.Provider, o.APIKind))
	}
	if o.Model != "" && o.Provider == "" && o.BaseURL == "" && os.Getenv(agentnode.ModelsVariable) == "" && o.Model != agentnode.DemoModel {
		o.Provider = o.APIKind.Provider()
	}
	return o, nil
}

// dialTimeout bounds the look at an endpoint before anything is started.
const dialTimeout = 3 * time.Second

// reachable looks whether anything listens at an explicit endpoint, so that a typo fails at once and starts nothing.
func reachable(ctx context.Context, baseURL string) error {
	if baseURL == "" {
		return nil
	}
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usage("--base-url %q: want http(s)://host/path", baseURL)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return withHint(fault.New(fault.ModelError, "model endpoint %s: %w", u.Redacted(), err),
			fmt.Sprintf("start the server at %s, or correct --base-url", u.Host))
	}
	return conn.Close()
}
