// Package configs holds the ready-to-use files that tunefit carries with it.
package configs

import _ "embed"

// HGXH100 is NCCL's cost model on an HGX H100, for tuning.Read.
//
//go:embed tuning/hgx-h100.json
var HGXH100 string

// DGXH100 is the topology that HGXH100 follows from, for topo.Read.
//
//go:embed topo/dgx-h100.xml
var DGXH100 string
