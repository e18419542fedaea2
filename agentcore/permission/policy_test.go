package permission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
)

func TestFilterOffersWhatPolicyAndModeAllow(t *testing.T) {
	all := []string{Read, Ls, Find, Grep, Write, Edit, Bash}
	looking := []string{Read, Ls, Find, Grep}
	for _, tt := range []struct {
		name   string
		policy Policy
		mode   Mode
		only   []string
		want   []string
	}{
		{"nothing set behaves as workspace in build mode", "", "", nil, all},                           // Promise: P-418. Promise: P-400.
		{"workspace offers every tool", Workspace, Build, nil, all},                                    // Promise: P-420.
		{"auto offers the same set", Auto, Build, nil, all},                                            // Promise: P-424.
		{"read-only takes write, edit and bash away", ReadOnly, Build, nil, looking},                   // Promise: P-419.
		{"plan mode does too and adds ask_user", Workspace, Plan, nil, append(looking[:4:4], AskUser)}, // Promise: P-438.
		{"auto changes nothing about plan mode", Auto, Plan, nil, append(looking[:4:4], AskUser)},
		{"read-only plan mode", ReadOnly, Plan, nil, append(looking[:4:4], AskUser)},
		{"a list narrows", Workspace, Build, []string{Bash, Read}, []string{Read, Bash}}, // Promise: P-407.
		{"a list brings nothing back", ReadOnly, Build, []string{Read, Bash}, []string{Read}},
		{"an empty list leaves nothing", Workspace, Build, []string{}, []string{}},
		{"names of own tools are not looked at", Workspace, Build, []string{"deploy", Ls}, []string{Ls}},
		{"an unknown policy is the strictest", "yolo", Build, nil, looking},
		{"an unknown mode is the strictest", Workspace, "ship", nil, looking},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Filter(tt.policy, tt.mode, tt.only)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
		})
	}
}

// Promise: P-438. Promise: P-436.
func TestAForgedCallIsRefusedWithAReason(t *testing.T) {
	for _, name := range []string{Write, Edit, Bash} {
		if err := Check(name, Workspace, Plan); err == nil || !strings.Contains(err.Error(), "plan") {
			t.Errorf("%s in plan mode: got %v", name, err)
		}
		if err := Check(name, ReadOnly, Build); err == nil || !strings.Contains(err.Error(), `"read-only"`) {
			t.Errorf("%s under read-only: got %v", name, err)
		}
	}
	if err := Check(AskUser, Workspace, Build); err == nil {
		t.Error("ask_user passed in build mode")
	}
	// Promise: P-408.
	if err := Check("deploy", ReadOnly, Plan); err != nil {
		t.Errorf("a host's own tool: got %v", err)
	}
}

func TestPoliciesAreParsedStrictly(t *testing.T) {
	for in, want := range map[string]Policy{"": Workspace, "read-only": ReadOnly, "workspace": Workspace, "auto": Auto} {
		var p Policy
		quoted, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(quoted, &p); err != nil || p != want {
			t.Errorf("%q: got %q, %v; want %q", in, p, err, want)
		}
	}
	for _, in := range []string{"Auto", "readonly", "read_only", " auto", strings.Repeat("x", 9000)} {
		_, err := ParsePolicy(in)
		if !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), `"read-only" or "workspace" or "auto"`) || len(err.Error()) > 300 {
			t.Errorf("%.20q: got %v", in, err)
		}
	}
	if m, err := ParseMode(""); m != Build || err != nil {
		t.Errorf("no mode: got %q, %v", m, err)
	}
	if _, err := ParseMode("review"); !fault.Is(err, fault.InputValidation) {
		t.Errorf("unknown mode: got %v", err)
	}
}
