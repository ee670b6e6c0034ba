package lora

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-project/sluice/engine/safetensors"
)

// The files of a directory of peft.
const (
	configName  = "adapter_config.json"
	weightsName = "adapter_model.safetensors"
	pickleName  = "adapter_model.bin"
)

// maxConfig bounds the settings file.
const maxConfig = 1 << 20

// openPEFT reads what save_pretrained of peft writes.
func openPEFT(dir string, base Base) (*File, error) {
	settings, err := readConfig(filepath.Join(dir, configName))
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", configName, err)
	}
	f, err := safetensors.Open(filepath.Join(dir, weightsName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, bin := os.Stat(filepath.Join(dir, pickleName)); bin == nil {
			return nil, fmt.Errorf("%s can run code when it is read; save the adapter as %s", pickleName, weightsName)
		}
	}
	if err != nil {
		return nil, err
	}
	factors, err := readPEFT(f, c, base)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	sum := sha256.New()
	sum.Write(settings)
	if _, err := f.WriteTo(sum); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{factors: factors, digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), close: f.Close}, nil
}

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open settings: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if len(data) > maxConfig {
		return nil, fmt.Errorf("%s is longer than %d bytes", configName, maxConfig)
	}
	return data, nil
}

func readPEFT(f *safetensors.File, c *config, base Base) ([]Factor, error) {
	g := gather{base: base, pairs: map[string]*pair{}}
	for _, name := range f.Tensors() {
		module, second, err := splitName(name)
		if err != nil {
			return nil, err
		}
		target, unused := base.Name(module + ".weight")
		switch {
		case unused:
			continue
		case target == "":
			return nil, fmt.Errorf("it changes %.120q, which the architecture %s, as supported here, does not have; it was made for another model", module, base.Arch)
		}
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		switch {
		case t.Type == safetensors.I8 || t.Type == safetensors.U8:
			return nil, fmt.Errorf("the factor %.120q has the type %s, whose scale nothing tells", name, t.Type)
		case len(t.Shape) != 2:
			return nil, fmt.Errorf("the factor %.120q has %d dimensions, not 2", name, len(t.Shape))
		}
		if err := g.put(target, module, second, t); err != nil {
			return nil, err
		}
	}
	if err := c.affordable(len(g.pairs)); err != nil {
		return nil, err
	}
	return g.factors(c.scale)
}

// splitName takes the name of a factor apart: which module it belongs to, and which of the two it is. Everything else that may be in
// an adapter is refused by what it is.
func splitName(name string) (module string, second bool, err error) {
	stem := strings.TrimPrefix(name, "base_model.model.")
	for _, end := range []string{".weight", ".default.weight"} {
		if m, ok := strings.CutSuffix(stem, ".lora_A"+end); ok {
			return m, false, nil
		}
		if m, ok := strings.CutSuffix(stem, ".lora_B"+end); ok {
			return m, true, nil
		}
	}
	what := "replaces a tensor of the model; adapters with whole modules are not supported"
	switch {
	case strings.Contains(name, "lora_magnitude_vector"):
		what = "makes it a DoRA adapter, which is not supported; merge it into the model"
	case strings.Contains(name, "lora_embedding_"):
		what = "changes an embedding, which is not supported"
	case strings.HasSuffix(name, ".base_layer.weight"):
		what = "is a copy of the model's own weight; save the adapter with save_embedding_layers=False"
	case strings.HasSuffix(name, ".bias"):
		what = "changes a bias, which is not supported; train with bias=\"none\""
	}
	return "", false, fmt.Errorf("the tensor %.120q %s", name, what)
}
