// Command tunefit learns tuning policies, shows what they decide, checks, tests and compares them, and shows a
// machine as NCCL sees it.
// Run it without arguments for the list of commands; README.md shows the first ones, and docs/COMMANDS.md,
// docs/dev/MODEL.md and docs/LIVE.md have the rest.
package main

import "github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/command"

func main() { command.Main() }
