package model

const MaxConstantGBps = maxConstantGBps
