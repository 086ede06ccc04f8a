module github.com/nccl-tuner-go/nccl-tuner-go

go 1.26

require (
	github.com/agext/levenshtein v1.2.3 // indirect
	github.com/gocarina/gocsv v0.0.0-20240520201108-78e41c74b4b1 // indirect
)
