// Package configs holds the ready-to-use files that tunefit carries with it.
package configs

import _ "embed"

// DGXH100File is the name of DGXH100.
const DGXH100File = "dgx-h100.xml"

// DGXH100 is the topology of an HGX H100, for topo.Read.
//
//go:embed topo/dgx-h100.xml
var DGXH100 string
