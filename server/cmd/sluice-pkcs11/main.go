//go:build pkcs11

// Command sluice-pkcs11 is a helper of the server ([keysource.Helper]) whose key lies in a hardware module and does not leave it. It is a program
// of its own since a module is a C library: the server stays static. `make pkcs11` builds it.
//
// As the server starts it, it answers one request on standard input. With --create it makes the key once, non-extractable, before that.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/miekg/pkcs11"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// problem is an error line of the protocol: a word for programs, and a sentence for people.
type problem struct{ word, text string }

func (p *problem) Error() string { return p.word + " " + p.text }

func problemf(word, format string, args ...any) error {
	return &problem{word, fmt.Sprintf(format, args...)}
}

func run(args []string, in io.Reader, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("sluice-pkcs11", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.module, "module", "", message.Both("cli.pkcs11.module", " / "))
	flags.StringVar(&o.token, "token", "", message.Both("cli.pkcs11.token", " / "))
	flags.StringVar(&o.key, "key", "", message.Both("cli.pkcs11.key", " / "))
	flags.StringVar(&o.pin, "pin", "", message.Both("cli.pkcs11.pin", " / "))
	flags.BoolVar(&o.create, "create", false, message.Both("cli.pkcs11.create", " / "))
	if err := flags.Parse(args); err != nil {
		return 2
	}
	answer, err := o.answer(in)
	if err == nil {
		fmt.Fprintln(out, answer)
		return 0
	}
	p := (*problem)(nil)
	if !errors.As(err, &p) {
		p = &problem{"module", err.Error()}
	}
	fmt.Fprintln(out, "error", strings.Join(strings.Fields(p.Error()), " "))
	return 1
}

type options struct {
	module, token, key, pin string
	create                  bool
}

// label is what a key of ours is called: one word, since the protocol has it between spaces.
var label = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// answer does what is asked: makes the key, or answers the request of in.
func (o options) answer(in io.Reader) (string, error) {
	if !label.MatchString(o.key) || o.module == "" || o.token == "" {
		return "", problemf("options", "want --module, --token, --pin, and --key of letters, digits and . _ : -")
	}
	if o.create {
		return "ok " + o.key, o.with(func(s session) error { return s.create(o.key) })
	}
	line, err := bufio.NewReader(io.LimitReader(in, 1<<17)).ReadString('\n')
	words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if err != nil || len(words) < 3 || words[1] != "1" {
		return "", problemf("request", "this is no request of version 1 of the protocol")
	}
	text, err := base64.StdEncoding.Strict().DecodeString(words[len(words)-1])
	if err != nil {
		return "", problemf("request", "its text is not base 64")
	}
	id, act := o.key, session.wrap
	switch {
	case words[0] == "wrap" && len(words) == 3:
	case words[0] == "unwrap" && len(words) == 4 && label.MatchString(words[2]):
		id, act = words[2], session.unwrap
	default:
		return "", problemf("request", "this is no request of version 1 of the protocol")
	}
	var result []byte
	err = o.with(func(s session) error {
		result, err = act(s, id, text)
		return err
	})
	return "ok " + id + " " + base64.StdEncoding.EncodeToString(result), err
}

// session is a sign-in at a token.
type session struct {
	module *pkcs11.Ctx
	handle pkcs11.SessionHandle
}

// with signs in, and out again.
func (o options) with(do func(session) error) error {
	var pin keyring.Credential
	if err := pin.UnmarshalText([]byte(o.pin)); err != nil {
		return problemf("options", "--pin: %v", err)
	}
	if pin.Reference() == "" {
		return problemf("options", "--pin says where the PIN is, file:/path or env:NAME: what is written out shows in the list of processes")
	}
	text, err := pin.Read(os.LookupEnv)
	if err != nil {
		return problemf("options", "--pin: %v", err)
	}
	module := pkcs11.New(o.module)
	if module == nil {
		return problemf("module", "the library %s cannot be loaded", o.module)
	}
	defer module.Destroy()
	if err := module.Initialize(); err != nil {
		return problemf("module", "initialise %s: %v", o.module, err)
	}
	defer func() { _ = module.Finalize() }()
	slots, err := module.GetSlotList(true)
	if err != nil {
		return problemf("module", "list the slots: %v", err)
	}
	for _, slot := range slots {
		info, err := module.GetTokenInfo(slot)
		if err != nil || strings.TrimRight(info.Label, " \x00") != o.token {
			continue
		}
		flags := uint(pkcs11.CKF_SERIAL_SESSION)
		if o.create {
			flags |= pkcs11.CKF_RW_SESSION
		}
		handle, err := module.OpenSession(slot, flags)
		if err != nil {
			return problemf("token", "open a session: %v", err)
		}
		defer func() { _ = module.CloseSession(handle) }()
		if err := module.Login(handle, pkcs11.CKU_USER, text); err != nil {
			return problemf("pin", "the token does not take the PIN: %v. Do not try again and again: it locks", err)
		}
		defer func() { _ = module.Logout(handle) }()
		return do(session{module, handle})
	}
	return problemf("token", "no token is called %q: is the device connected?", o.token)
}

// find returns the key with a label. Two of them would be a guess.
func (s session) find(id string) (pkcs11.ObjectHandle, error) {
	err := s.module.FindObjectsInit(s.handle, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_SECRET_KEY), pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, pkcs11.CKK_AES), pkcs11.NewAttribute(pkcs11.CKA_LABEL, id),
	})
	if err != nil {
		return 0, err
	}
	found, _, err := s.module.FindObjects(s.handle, 2)
	if err := errors.Join(err, s.module.FindObjectsFinal(s.handle)); err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, problemf("key", "the token has %d AES keys called %s, and needs one: --create makes it", len(found), id)
	}
	return found[0], nil
}

// create makes a key of 256 bits that stays in the token.
func (s session) create(id string) error {
	if _, err := s.find(id); err == nil {
		return problemf("key", "the token has a key called %s already: choose another label", id)
	}
	_, err := s.module.GenerateKey(s.handle, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_KEY_GEN, nil)}, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_SECRET_KEY), pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, pkcs11.CKK_AES), pkcs11.NewAttribute(pkcs11.CKA_VALUE_LEN, 32),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, id), pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true), pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true), pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
		pkcs11.NewAttribute(pkcs11.CKA_ENCRYPT, true), pkcs11.NewAttribute(pkcs11.CKA_DECRYPT, true),
	})
	return err
}

const ivSize = 12

// sealed binds a ciphertext to what it is for, and to its key.
func sealed(id string) []byte { return []byte("sluice/master-key/v1 " + id) }

// wrap encrypts with AES-GCM; the initial vector stands in front. Some modules take their own, and say so afterwards.
func (s session) wrap(id string, text []byte) ([]byte, error) {
	key, err := s.find(id)
	if err != nil {
		return nil, err
	}
	iv := make([]byte, ivSize)
	_, _ = rand.Read(iv) // never fails
	params := pkcs11.NewGCMParams(iv, sealed(id), 128)
	defer params.Free()
	if err := s.module.EncryptInit(s.handle, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)}, key); err != nil {
		return nil, err
	}
	out, err := s.module.Encrypt(s.handle, text)
	if err != nil {
		return nil, err
	}
	if used := params.IV(); len(used) == ivSize {
		iv = used
	}
	return append(append([]byte{}, iv...), out...), nil
}

func (s session) unwrap(id string, text []byte) ([]byte, error) {
	key, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if len(text) <= ivSize {
		return nil, problemf("request", "the ciphertext is too short")
	}
	params := pkcs11.NewGCMParams(text[:ivSize], sealed(id), 128)
	defer params.Free()
	if err := s.module.DecryptInit(s.handle, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)}, key); err != nil {
		return nil, err
	}
	out, err := s.module.Decrypt(s.handle, text[ivSize:])
	if err != nil {
		return nil, problemf("key", "the key %s does not open it: %v", id, err)
	}
	return out, nil
}
