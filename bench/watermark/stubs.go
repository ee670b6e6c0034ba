package main

import "context"

func detect(context.Context, []string) error  { return nil }
func quality(context.Context, []string) error { return nil }
