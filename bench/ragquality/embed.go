package main

import (
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/sluice-project/sluice/bench/ragsets"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/reduce"
)

// vectors are those of a set by one model, of length one.
type vectors struct{ Passages, Questions [][]float32 }

// embedSet embeds a set with a model, or reads what an earlier run kept in dir: it takes minutes.
func embedSet(ctx context.Context, dir, path string, set ragsets.Set) (v vectors, err error) {
	key := sha256.New()
	_, _ = fmt.Fprintln(key, filepath.Base(path), len(set.Passages))
	for _, p := range set.Passages {
		_, _ = fmt.Fprintln(key, p.Title, p.Text)
	}
	for _, q := range set.Questions {
		_, _ = fmt.Fprintln(key, q.Text)
	}
	file := filepath.Join(dir, set.Name+"-"+hex.EncodeToString(key.Sum(nil))[:16]+".vectors")
	kept, err := os.Open(file)
	if err == nil {
		defer func() { _ = kept.Close() }()
		return v, gob.NewDecoder(kept).Decode(&v)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	e, err := native.New(native.Config{Models: []native.ModelConfig{{ID: "embedder", Path: path}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return v, fmt.Errorf("open model: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	one := func(text string, role engine.InputRole) ([]float32, error) { return embedWhole(ctx, e, text, role) }
	for i, p := range set.Passages {
		x, err := one(passageText(p), engine.RolePassage)
		if err != nil {
			return v, err
		}
		v.Passages = append(v.Passages, x)
		progress(set.Name, "passages", i+1, len(set.Passages))
	}
	for i, q := range set.Questions {
		x, err := one(q.Text, engine.RoleQuery)
		if err != nil {
			return v, err
		}
		v.Questions = append(v.Questions, x)
		progress(set.Name, "questions", i+1, len(set.Questions))
	}
	out, err := os.Create(file + ".part")
	if err != nil {
		return v, err
	}
	if err := errors.Join(gob.NewEncoder(out).Encode(v), out.Close()); err != nil {
		return v, err
	}
	return v, os.Rename(file+".part", file)
}

// shorter returns what a map makes of the vectors.
func (v vectors) shorter(r *reduce.Reduction) (out vectors, err error) {
	if out.Passages, err = shorter(r, v.Passages); err != nil {
		return out, err
	}
	out.Questions, err = shorter(r, v.Questions)
	return out, err
}

func shorter(r *reduce.Reduction, list [][]float32) (out [][]float32, err error) {
	out = make([][]float32, len(list))
	for i, x := range list {
		if out[i], err = r.Apply(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func progress(set, what string, done, all int) {
	if done%100 == 0 || done == all {
		_, _ = fmt.Fprintf(os.Stderr, "%s: %d of %d %s\n", set, done, all, what)
	}
}

// embedWhole embeds a text of any length, as package rag does: one that is too long is halved, and its vector is the mean of the halves.
func embedWhole(ctx context.Context, e *native.Engine, text string, role engine.InputRole) ([]float32, error) {
	got, err := enginetest.Embed(ctx, e, &engine.EmbedRequest{Model: "embedder", Input: []string{text}, Role: role})
	if err == nil {
		return got.Vectors[0], nil
	}
	runes := []rune(text)
	if !fault.Is(err, fault.CodeContextLength) || len(runes) < 2 {
		return nil, err
	}
	first, err := embedWhole(ctx, e, string(runes[:len(runes)/2]), role)
	if err != nil {
		return nil, err
	}
	second, err := embedWhole(ctx, e, string(runes[len(runes)/2:]), role)
	if err != nil {
		return nil, err
	}
	for i := range first {
		first[i] = (first[i] + second[i]) / 2
	}
	return first, nil
}

// passageText is what is indexed of a passage.
func passageText(p ragsets.Passage) string {
	if p.Title == "" {
		return p.Text
	}
	return p.Title + "\n" + p.Text
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
