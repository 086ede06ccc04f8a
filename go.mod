module github.com/nccl-tuner-go/nccl-tuner-go

go 1.26
