package topo

import (
	"path/filepath"
	"testing"
)

// BenchmarkNVL72 takes a 72-GPU NVLink domain from its XML tree to paths, and through communicator init.
func BenchmarkNVL72(b *testing.B) {
	var doc *Document
	for _, dir := range goldenSystems(b) {
		if filepath.Base(dir) == "hw-gb200-nvl72" {
			doc = readGolden(b, dir)
		}
	}
	if doc == nil {
		b.Skip("hw-gb200-nvl72 is not there")
	}
	build := func(b *testing.B) *System {
		s, err := Build(doc, BuildOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	b.Run("build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			build(b)
		}
	})
	b.Run("paths", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := build(b).SetPaths(Settings{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("init", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s := build(b)
			if err := s.Init(Settings{}, WholeComm(s)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
