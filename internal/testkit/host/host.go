//go:build cgo

package host

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -ldl -rdynamic
import "C"

import _ "github.com/nccl-tuner-go/nccl-tuner-go/internal/abi" // abi.h
