// Package abi holds abi.h, the tuner ABI of NCCL as C sees it. The library (tuner/plugin) and
// the programs that load a library (internal/testkit/host) include that header.
//
// The go command does not see headers of another package. So a package that includes abi.h
// also imports this one: the header is embedded here, and an edit of it rebuilds them. Nothing
// at run time uses the text, and the linker drops it.
package abi

import _ "embed" // for Header

// Header is the text of abi.h.
//
//go:embed abi.h
var Header string
