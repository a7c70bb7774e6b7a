package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sotabuild/sotabuild/engine/key"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				b, err := json.Marshal(map[string]any{"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "key_scheme": key.Scheme})
				if err != nil {
					return err
				}
				fmt.Fprintf(a.out, "%s\n", b)
				return nil
			}
			fmt.Fprintf(a.out, "sotabuild %s (%s, %s/%s, key scheme %d)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, key.Scheme)
			return nil
		},
	}
}
