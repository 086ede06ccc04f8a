//go:build cgo

package probe

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -ldl
import "C"

import _ "github.com/nccl-tuner-go/nccl-tuner-go/internal/abi" // abi.h

func init() { Supported = true }
