package daemon

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/workflowd/workflowd/store/sqlite"
)

// Version is the version of the product; release builds set it.
var Version = "0.1.0-dev"

func (a *app) versionCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: noArguments, RunE: func(*cobra.Command, []string) error {
		v := struct {
			Version string `json:"version"`
			Commit  string `json:"commit,omitempty"`
			Go      string `json:"go"`
			SQLite  string `json:"sqlite"`
		}{Version, commit(), runtime.Version(), sqlite.Version()}
		if asJSON {
			return json.NewEncoder(a.Out).Encode(v)
		}
		_, err := fmt.Fprintf(a.Out, "workflowd %s (%s, sqlite %s)\n", v.Version, v.Go, v.SQLite)
		return err
	}}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
