// Command composecheck reads a Compose file with Docker Compose's own loader and prints what it understood.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv, cli.WithName("check"))
	if err == nil {
		project, loadError := options.LoadProject(context.Background())
		if err = loadError; err == nil {
			text, yamlError := project.MarshalJSON()
			if err = yamlError; err == nil {
				fmt.Println(string(text))
				return
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
