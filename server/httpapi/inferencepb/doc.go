// Package inferencepb is a leaf: the messages of the Open Inference Protocol over gRPC, generated from inference.proto by `make generate-protocol`.
package inferencepb
