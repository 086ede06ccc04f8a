package model

// For tests of the package from outside, which use it through policy.Engine, too.
var PhysicsMicros = physicsMicros

const (
	NumPhysics      = numPhysics
	MaxConstantGBps = maxConstantGBps
)
